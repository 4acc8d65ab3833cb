// Conversion: a model converted through every format is unchanged, bit for bit, and features that a format
// cannot represent are refused by name.
#include "engine/convert/convert.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>

#include "engine/convert/tokenizer_writer.h"
#include "tests/engine/model/model_run.h"

namespace ringside {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;
using Format = ModelFiles::Format;

std::string Read(const std::string& path) {
  std::stringstream text;
  text << std::ifstream(path, std::ios::binary).rdbuf();
  return text.str();
}

// Name to bytes of every tensor of the network.
std::map<std::string, std::string> Tensors(const std::string& path) {
  const ModelFiles files = OpenModelFiles(path).value();
  std::map<std::string, std::string> out;
  for (const PlannedTensor& planned : files.plan.tensors) {
    for (const FileTensor& tensor : files.tensors) {
      if (tensor.name != planned.name) continue;
      const auto bytes = tensor.data.bytes;
      out[planned.name] = std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    }
  }
  return out;
}

class ConvertModel : public ::testing::Test {
 protected:
  ConvertModel() { fs::create_directories(folder_); }
  ~ConvertModel() override { fs::remove_all(folder_); }

  std::string To(const std::string& name) const { return folder_ + "/" + name; }
  void Make(const std::string& from, const std::string& to, std::optional<Format> format = {}, int64_t gpus = 1) {
    const Status status = Convert({.from = from, .to = to, .format = format, .gpus = gpus});
    ASSERT_TRUE(status.ok()) << from << " to " << to << ": " << status.ToString();
  }
  std::vector<float> Logits(const std::string& path) {
    auto model = Model::Load(path, *backend_);
    if ((*model)->spec().encoder_layers > 0) return LogitsOfAnswer(**model);
    OwnCache cache(**model, {0, 64, Eviction::kToken}, 16);
    return RunAll(**model, cache.get(), GoldenIds(), 16);
  }
  void ExpectRefused(const ConvertOptions& options, StatusCode code, const std::string& message) {
    const Status status = Convert(options);
    EXPECT_EQ(status.code(), code) << status.ToString();
    EXPECT_THAT(status.message(), HasSubstr(message));
    EXPECT_TRUE(fs::is_empty(folder_)) << "something was left of it: " << message;
  }

  const std::string folder_ = ::testing::TempDir() + "convert_" + std::to_string(::getpid());
  std::unique_ptr<Backend> backend_ = MakeTestBackend();
};

TEST_F(ConvertModel, RoundTripIsIdentical) {
  for (const std::string family : {"gpt2", "families/bloom", "families/gpt_neox", "encoders/t5_gated"}) {
    const std::string from = GoldenFolder(family);
    Make(from, To("m.gguf"));
    Make(To("m.gguf"), To("pieces"), {}, 2);
    Make(To("pieces"), To("again"));
    EXPECT_TRUE(Tensors(To("again")) == Tensors(from)) << family;
    const std::vector<float> want = Logits(from);
    for (const std::string form : {"m.gguf", "pieces", "again"}) EXPECT_TRUE(Logits(To(form)) == want) << form;
    fs::remove_all(folder_);
    fs::create_directories(folder_);
  }
}

// Models that GGUF, or FasterTransformer, does not support skip that format.
TEST_F(ConvertModel, RoundTripsBetweenFormats) {
  const std::pair<const char*, const char*> cases[] = {
      {"families/opt", "pieces"}, {"families/gptj", "pieces"}, {"families/gpt_neox_serial", "pieces"},
      {"encoders/t5", "pieces"},  {"llama", "m.gguf"},         {"qwen2", "m.gguf"},
      {"qwen3", "m.gguf"}};
  for (const auto& [family, form] : cases) {
    const std::string from = GoldenFolder(family);
    const bool pieces = std::string(form) == "pieces";
    Make(from, To(form), pieces ? std::optional(Format::kFasterTransformer) : std::nullopt);
    Make(To(form), To("again"));
    const std::vector<float> want = Logits(from);
    const std::vector<float> there = Logits(To(form));
    // Llama's GGUF files store rotary pairs in another order, so scores are summed in another order.
    if (std::string(family) == "llama") {
      EXPECT_LT(RelativeError(there, want), 1e-5);
    } else {
      EXPECT_TRUE(there == want) << family;
    }
    EXPECT_TRUE(Logits(To("again")) == want) << family;
    const bool padded = std::string(family) == "families/opt";  // padding rows of its position table
    EXPECT_EQ(Tensors(To("again")) == Tensors(from), !padded) << family;
    fs::remove_all(folder_);
    fs::create_directories(folder_);
  }
}

// Byte-identical to the output of a script that follows FasterTransformer's own layout documentation.
TEST_F(ConvertModel, WritesFasterTransformersLayout) {
  for (const std::string family : {"gpt2", "families/opt", "families/bloom", "families/gptj", "families/gpt_neox",
                                   "encoders/t5", "encoders/t5_gated"}) {
    const std::string from = GoldenFolder(family);
    const std::string command = "python3 " + GoldenFolder("make_faster_transformer.py") + " " + from + " " +
                                To("script") + " --gpus 1 2 --type " + (family == "gpt2" ? "fp32" : "fp16");
    ASSERT_EQ(std::system(command.c_str()), 0);
    for (const int gpus : {1, 2}) {
      const std::string ours = To(std::to_string(gpus)), theirs = To("script/" + std::to_string(gpus) + "-gpu");
      Make(from, ours, Format::kFasterTransformer, gpus);
      size_t files = 0;
      for (const auto& entry : fs::directory_iterator(theirs)) {
        const std::string name = entry.path().filename().string();
        ++files;
        const bool bytes = name.ends_with(".bin");
        EXPECT_TRUE(!bytes || Read(ours + "/" + name) == Read(entry.path())) << family << " " << name;
      }
      EXPECT_EQ(files, static_cast<size_t>(std::distance(fs::directory_iterator(ours), {}))) << family;
    }
    fs::remove_all(folder_);
    fs::create_directories(folder_);
  }
}

// A GPT-NeoX folder that has only the sum of two biases.
TEST_F(ConvertModel, ConvertsTheSumOfTwoBiases) {
  Make(GoldenFolder("families/gpt_neox"), To("whole"), Format::kFasterTransformer, 2);
  for (const std::string layer : {"0", "1"}) {
    fs::remove(To("whole/model.layers." + layer + ".attention.dense.bias.bin"));
    fs::remove(To("whole/model.layers." + layer + ".mlp.dense_4h_to_h.bias.bin"));
  }
  Make(To("whole"), To("again"), Format::kFasterTransformer, 4);
  EXPECT_TRUE(Logits(To("again")) == Logits(To("whole")));
  const Status refused = Convert({.from = To("again"), .to = To("m")});
  EXPECT_THAT(refused.message(), HasSubstr("cannot store the model's attention bias"));
}

TEST_F(ConvertModel, RoundsOnRequest) {
  const std::string from = GoldenFolder("gpt2");  // float32
  const std::vector<float> want = Logits(from);
  for (const auto& [dtype, bound] : {std::pair(DType::kF16, 2e-3), std::pair(DType::kBF16, 2e-2)}) {
    const Status status = Convert({.from = from, .to = To("m.gguf"), .dtype = dtype});
    ASSERT_TRUE(status.ok()) << status.ToString();
    const double error = RelativeError(Logits(To("m.gguf")), want);
    EXPECT_GT(error, 0);
    EXPECT_LT(error, bound);
    fs::remove(To("m.gguf"));
  }
  // A quantized file is converted to its dequantized values.
  Make(GoldenFolder("gguf_q8_0/model.gguf"), To("again"));
  EXPECT_EQ(OpenModelFiles(To("again"))->tensors.front().data.dtype, DType::kF32);
}

TEST_F(ConvertModel, RefusesWhatTheFormatCannotExpress) {
  const auto invalid = StatusCode::kInvalidArgument;
  const auto golden = [](const std::string& name) { return GoldenFolder(name); };
  ExpectRefused({.from = golden("families/gemma2"), .to = To("m.gguf")}, invalid,
                "architecture 'gemma2' cannot be converted; these can: gpt2, opt, bloom");
  ExpectRefused({.from = golden("families/opt"), .to = To("m.gguf")}, invalid,
                "the target format does not support the architecture 'opt'");
  ExpectRefused({.from = golden("llama"), .to = To("m"), .format = Format::kFasterTransformer}, invalid,
                "the target format does not support the architecture 'llama'");
  ExpectRefused({.from = golden("families/mistral_window"), .to = To("m.gguf")}, invalid,
                "cannot store the model's windows of the layers");
  ExpectRefused({.from = golden("families/gpt_neox_serial"), .to = To("m.gguf")}, invalid,
                "cannot store the model's activation");
  ExpectRefused({.from = golden("encoders/t5"), .to = To("m.gguf")}, invalid,
                "cannot store the model's biases of distances");
  ExpectRefused({.from = golden("llama_rope_llama3/model.gguf"), .to = To("m")}, invalid, "rope scaling");
  ExpectRefused({.from = golden("gpt2"), .to = To("m"), .gpus = 4}, invalid, "4 GPUs cannot evenly share 2 heads");
  ExpectRefused({.from = golden("gpt2"), .to = To("m.gguf"), .gpus = 2}, invalid,
                "applies to FasterTransformer folders only");
  ExpectRefused({.from = golden("none"), .to = To("m")}, StatusCode::kNotFound, golden("none"));
  EXPECT_EQ(Convert({.from = golden("gpt2"), .to = To("no/such/folder")}).code(), StatusCode::kIo);
}

TEST_F(ConvertModel, RefusesToOverwrite) {
  const std::string from = GoldenFolder("gpt2");
  std::ofstream(To("m.gguf")) << "mine";
  fs::create_symlink("nowhere", To("link"));
  for (const std::string to : {"m.gguf", "link", ".", "./"}) {
    const Status status = Convert({.from = from, .to = To(to)});
    EXPECT_EQ(status.code(), StatusCode::kInvalidArgument) << to;
    EXPECT_THAT(status.message(), HasSubstr("already exists"));
  }
  EXPECT_EQ(Read(To("m.gguf")), "mine");
  EXPECT_EQ(std::distance(fs::directory_iterator(folder_), {}), 2);
}

TEST_F(ConvertModel, ConvertsTheTokenizer) {
  for (const std::string kind : {"gpt2", "llama3", "qwen2", "digits", "tekken", "o200k"}) {
    const std::string from = To("from");
    fs::copy(GoldenFolder("gpt2"), from);
    fs::copy(GoldenFolder("tokenizer/" + kind), from);
    std::ofstream(from + "/chat_template.jinja") << "{{ messages[0].content }}";
    std::ofstream(from + "/generation_config.json") << R"({"temperature": 0.25, "top_k": 7, "eos_token_id": [2, 5]})";
    Make(from, To("m.gguf"));
    Make(To("m.gguf"), To("pieces"), Format::kFasterTransformer);
    Make(To("pieces"), To("again"));
    const TokenizerData want = OpenModelFiles(from)->tokenizer;
    ASSERT_GT(want.tokens.size(), 100u);
    for (const std::string form : {"m.gguf", "pieces", "again"}) {
      const ModelFiles files = OpenModelFiles(To(form)).value();
      EXPECT_EQ(DifferentTokenizer(files.tokenizer, want), "") << kind << " " << form;
      EXPECT_EQ(files.chat_template, "{{ messages[0].content }}");
    }
    EXPECT_THAT(Read(To("again/generation_config.json")), HasSubstr("\"temperature\": 0.25"));
    fs::remove_all(folder_);
    fs::create_directories(folder_);
  }
}

// As in llama.cpp's T5 files, which cannot represent tokenizer.json's scores and normalizer steps.
TEST_F(ConvertModel, ConvertsAUnigramTokenizer) {
  const std::string from = To("from");
  fs::copy(GoldenFolder("encoders/t5_gated"), from);
  fs::remove(from + "/model.gguf");
  fs::copy(GoldenFolder("tokenizer/unigram/tokenizer.json"), from);
  const Status refused = Convert({.from = from, .to = To("m.gguf")});
  EXPECT_THAT(refused.message(), HasSubstr("cannot store the model's tokenizer (scores)"));
  fs::remove(from + "/tokenizer.json");
  fs::copy(GoldenFolder("tokenizer/unigram.model"), from + "/spiece.model");
  Make(from, To("m.gguf"));
  const TokenizerData want = OpenModelFiles(from)->tokenizer, got = OpenModelFiles(To("m.gguf"))->tokenizer;
  EXPECT_EQ(want.kind, TokenizerData::Kind::kUnigram);
  EXPECT_FALSE(want.charsmap.empty());
  EXPECT_EQ(DifferentTokenizer(got, want), "");
}

TEST_F(ConvertModel, RefusesAMismatchedTokenizer) {
  const std::string from = To("from");
  fs::copy(GoldenFolder("gpt2"), from);
  fs::copy(GoldenFolder("tokenizer/llama2"), from);
  ConvertOptions options{.from = from, .to = To("m.gguf")};
  const Status refused = Convert(options);
  EXPECT_EQ(refused.code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(refused.message(), HasSubstr("a SentencePiece tokenizer without scores"));
  EXPECT_EQ(std::distance(fs::directory_iterator(folder_), {}), 1);
  options.tokenizer = false;
  EXPECT_TRUE(Convert(options).ok());
  EXPECT_TRUE(OpenModelFiles(To("m.gguf"))->tokenizer.tokens.empty());
}

TEST(DifferentTokenizer, ErrorNamesTheDifference) {
  const TokenizerData one{.tokens = {"a", "b"}, .types = {TokenizerData::TokenType::kNormal, {}}};
  EXPECT_EQ(DifferentTokenizer(one, one), "");
  TokenizerData other = one;
  other.merges = {{"a", "b"}};
  EXPECT_EQ(DifferentTokenizer(one, other), "merges");
  other = one;
  other.tokens.push_back("spare"), other.types.push_back(TokenizerData::TokenType::kUnused);
  EXPECT_EQ(DifferentTokenizer(one, other), "") << "no text is written with it";
  other.end_of_turn = {1};
  EXPECT_EQ(DifferentTokenizer(one, other), "ends of an answer");
}

}  // namespace
}  // namespace ringside
