// Ids equal to those of the library `tokenizers`, step by step; see tests/golden/make_tokenizer_steps_golden.py.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "engine/files/gguf_reader.h"
#include "engine/text/files/gguf_pre_tokenizers.h"
#include "engine/text/files/tokenizer_texts.h"
#include "engine/text/pipeline/patterns.h"
#include "engine/text/tokenizer.h"
#include "tests/engine/files/gguf_file_writer.h"
#include "tests/engine/text/tokenizer_folder.h"
#include "tests/engine/text/tokenizer_strings.h"

namespace ringside {
namespace {

using Json = nlohmann::json;
using ::testing::HasSubstr;

constexpr size_t kFirst = 100, kStrings = 250;  // make_tokenizer_steps_golden.py

Json ReadGoldenJson(const std::string& name) {
  std::ifstream file(GoldenPath(name), std::ios::binary);
  return Json::parse(file);
}

// As the script's `bases` and `patched`.
Json Patched(const Json& entry) {
  const std::string base = entry["base"];
  Json json = ReadGoldenJson(base + "/tokenizer.json");
  if (base == "unigram") {
    json["added_tokens"] = Json::array();
    for (size_t i = 0; i < 3; ++i) {
      json["model"]["vocab"][i][0] = std::string(1, '\0') + "special " + std::to_string(i) + std::string(1, '\0');
    }
  }
  const Json& patch = entry["patch"];
  if (patch.contains("model")) json["model"].update(patch["model"]);
  for (const char* key : {"normalizer", "pre_tokenizer"}) {
    if (patch.contains(key)) json[key] = patch[key];
  }
  if (!patch.contains("added")) return json;
  int64_t next = 0;
  for (const Json& id : json["model"]["vocab"]) next = std::max(next, id.get<int64_t>() + 1);
  for (const Json& token : json["added_tokens"]) next = std::max(next, token["id"].get<int64_t>() + 1);
  for (Json token : patch["added"]) {
    const auto known = json["model"]["vocab"].find(token["content"].get<std::string>());
    token["id"] = known == json["model"]["vocab"].end() ? next++ : known->get<int64_t>();
    json["added_tokens"].push_back(token);
  }
  return json;
}

uint32_t DigestOf(const Tokenizer& tokenizer, const std::string& text) {
  Digest digest;
  for (const bool markup : {false, true}) {
    const TextPiece piece{text, markup};
    if (markup) digest.Add(0xFFFFFFFFu);
    for (const TokenId id : tokenizer.EncodeAll({&piece, 1})) digest.Add(static_cast<uint32_t>(id));
  }
  return digest.value();
}

// Number of strings of case `place` whose ids differ.
size_t Differences(const Tokenizer& tokenizer, size_t place) {
  static const std::vector<uint32_t> want = ReadDigests("steps");
  GoldenStrings strings;
  size_t wrong = 0;
  for (size_t i = 0; i < kStrings; ++i) {
    wrong += DigestOf(tokenizer, strings.Make(kFirst + i)) != want.at(place * kStrings + i);
  }
  return wrong;
}

TEST(TokenizerSteps, EveryStepMatchesTheLibrary) {
  const Json cases = ReadGoldenJson("steps.json");
  ASSERT_EQ(ReadDigests("steps").size(), cases.size() * kStrings);
  for (size_t place = 0; place < cases.size(); ++place) {
    const std::string name = cases[place]["name"];
    const Result<TokenizerData> data = ReadTokenizerJson(Patched(cases[place]).dump());
    ASSERT_TRUE(data.ok()) << name << ": " << data.status().ToString();
    const auto tokenizer = MakeTokenizer(*data);
    ASSERT_TRUE(tokenizer.ok()) << name << ": " << tokenizer.status().ToString();
    EXPECT_EQ(Differences(**tokenizer, place), 0u) << name;
  }
}

TEST(TokenizerSteps, GgufNamesMapToTheirSteps) {
  const Json cases = ReadGoldenJson("steps.json");
  const std::string prefix = "gguf:";
  size_t named = 0;
  for (size_t place = 0; place < cases.size(); ++place) {
    const std::string name = cases[place]["name"];
    if (!name.starts_with(prefix)) continue;
    TokenizerData data = *ReadTokenizerJson(Patched(cases[place]).dump());
    const auto known = FindGgufPreTokenizer(name.substr(prefix.size()));
    ASSERT_TRUE(known.has_value()) << name;
    data.normaliser = known->normaliser;
    data.pre_tokenizer = known->steps;
    data.ignore_merges = known->ignore_merges;
    const auto tokenizer = MakeTokenizer(data);
    ASSERT_TRUE(tokenizer.ok()) << name << ": " << tokenizer.status().ToString();
    EXPECT_EQ(Differences(**tokenizer, place), 0u) << name;
    EXPECT_TRUE(NameGgufPreTokenizer(data).has_value());
    ++named;
  }
  EXPECT_GE(named, 30u);
}

// Every name known to llama.cpp; names of the same style share one that is compared above.
TEST(TokenizerSteps, KnowsEveryPreTokenizerName) {
  for (const char* name : {"default",
                           "minicpm5",
                           "llama3",
                           "llama-v3",
                           "llama-bpe",
                           "falcon3",
                           "falcon-h1",
                           "pixtral",
                           "midm-2.0",
                           "lfm2",
                           "jina-v5-nano",
                           "deepseek-llm",
                           "youtu",
                           "falcon",
                           "deepseek-v3",
                           "deepseek-coder",
                           "spark2_5",
                           "mpt",
                           "starcoder",
                           "gpt-2",
                           "phi-2",
                           "jina-es",
                           "jina-de",
                           "gigachat",
                           "mellum",
                           "jais-2",
                           "jina-v2-es",
                           "jina-v2-de",
                           "a.x-4.0",
                           "modern-bert",
                           "gemma4",
                           "refact",
                           "sarvam-moe",
                           "jina-v1-en",
                           "jina-v2-code",
                           "roberta-bpe",
                           "qwen2",
                           "kormo",
                           "whitespace",
                           "command-r",
                           "deepseek-r1-qwen",
                           "f2llmv2",
                           "qwen35",
                           "stablelm2",
                           "olmo",
                           "dbrx",
                           "smaug-bpe",
                           "poro-chat",
                           "glm4",
                           "glm5",
                           "chatglm-bpe",
                           "viking",
                           "jais",
                           "tekken",
                           "smollm",
                           "codeshell",
                           "bloom",
                           "gpt3-finnish",
                           "exaone",
                           "exaone4",
                           "chameleon",
                           "megrez",
                           "exaone-moe",
                           "minerva-7b",
                           "gpt-4o",
                           "llama4",
                           "kanana2",
                           "talkie",
                           "tiny_aya",
                           "cohere2moe",
                           "superbpe",
                           "trillion",
                           "llada-moe",
                           "hunyuan",
                           "bailingmoe",
                           "bailingmoe2",
                           "seed-coder",
                           "hunyuan-dense",
                           "hy_v4",
                           "kimi-k2",
                           "joyai-llm",
                           "ufakzeka",
                           "grok-2",
                           "granite-docling",
                           "afmoe",
                           "laguna",
                           "minimax-m2",
                           "solar-open",
                           "mellum2",
                           "granite-embed-multi-97m",
                           "granite-embed-multi-311m"}) {
    EXPECT_TRUE(FindGgufPreTokenizer(name).has_value()) << name;
  }
  EXPECT_FALSE(FindGgufPreTokenizer("").has_value());
  EXPECT_FALSE(FindGgufPreTokenizer("gpt-3").has_value());
}

Result<TokenizerData> OfGguf(const std::string& architecture, const std::string& pre) {
  const std::string path = ::testing::TempDir() + "/pre_tokenizer.gguf";
  GgufFileWriter file;
  file.String("general.architecture", architecture).String("tokenizer.ggml.model", "gpt2");
  if (!pre.empty()) file.String("tokenizer.ggml.pre", pre);
  file.Strings("tokenizer.ggml.tokens", {"a", "b", "ab", "\u2581", "<0x0A>"}).Strings("tokenizer.ggml.merges", {"a b"});
  std::ofstream(path, std::ios::binary) << file.Finish();
  return ReadGgufTokenizer(*GgufFile::Open(path));
}

TEST(TokenizerSteps, UnnamedPreTokenizerUsesTheFamilys) {
  EXPECT_EQ(OfGguf("falcon", "")->pre_tokenizer, FindGgufPreTokenizer("falcon")->steps);
  EXPECT_EQ(OfGguf("gpt2", "")->pre_tokenizer, FindGgufPreTokenizer("gpt-2")->steps);
  EXPECT_EQ(OfGguf("llama", "")->pre_tokenizer, FindGgufPreTokenizer("default")->steps);
  EXPECT_EQ(OfGguf("falcon", "bloom")->pre_tokenizer, FindGgufPreTokenizer("bloom")->steps);
  EXPECT_THAT(OfGguf("llama", "gpt-3").status().message(), HasSubstr("gpt-3"));
}

TEST(TokenizerSteps, SomeNamesMeanCharacterVocabularies) {
  const auto tokenizer = std::move(*MakeTokenizer(*OfGguf("llama", "gemma4")));
  const TextPiece piece{"ab a\n", false};
  EXPECT_THAT(tokenizer->EncodeAll({&piece, 1}), ::testing::ElementsAre(2, 3, 0, 4));
}

TEST(TokenizerSteps, EncodesAMegabyteOfDigits) {
  Json json = ReadGoldenJson("bytes/tokenizer.json");
  for (const char* pattern : {patterns::kTriplesToWordEnd, patterns::kTriples, patterns::kTripleCuts}) {
    TokenizerData data = *ReadTokenizerJson(json.dump());
    data.pre_tokenizer = {Isolate(pattern), {.kind = PreTokenizerStep::Kind::kByteLevel}};
    const auto tokenizer = std::move(*MakeTokenizer(data));
    const TextPiece piece{std::string(1 << 20, '7'), false};
    const std::vector<TokenId> ids = tokenizer->EncodeAll({&piece, 1});
    EXPECT_GE(ids.size(), (size_t{1} << 20) / 3);
    EXPECT_EQ(tokenizer->Encode({&piece, 1}, 1000), std::nullopt);
  }
}

// User text never becomes a special token, even where a normalizer would create one.
TEST(TokenizerSteps, NormalisedSpecialTokensAreParsedInMarkupOnly) {
  Json json = ReadGoldenJson("bytes/tokenizer.json");
  json["normalizer"] = {{"type", "Lowercase"}};
  const size_t id = json["model"]["vocab"].size() + json["added_tokens"].size();
  json["added_tokens"].push_back({{"id", id}, {"content", "[END]"}, {"special", true}, {"normalized", true}});
  const auto tokenizer = std::move(*MakeTokenizer(*ReadTokenizerJson(json.dump())));
  const auto special = static_cast<TokenId>(id);
  const auto has = [&](const std::vector<TextPiece>& pieces) {
    return std::ranges::count(tokenizer->EncodeAll(pieces), special);
  };
  EXPECT_EQ(has({{"[END] [end]", true}}), 2);
  EXPECT_EQ(has({{"[END] [end]", false}}), 0);
  EXPECT_EQ(has({{"[END]", true}, {"[END] [end]", false}, {"[END]", true}}), 2);
  EXPECT_EQ(has({{"[EN", true}, {"D]", false}}), 0);
}

TEST(TokenizerSteps, RefusesUnsupportedFeaturesByName) {
  const auto refuse = [](const std::function<void(Json&)>& change, const std::string& what) {
    Json json = ReadGoldenJson("bytes/tokenizer.json");
    change(json);
    const Result<TokenizerData> data = ReadTokenizerJson(json.dump());
    const Status status = data.ok() ? MakeTokenizer(*data).status() : data.status();
    EXPECT_EQ(status.code(), StatusCode::kInvalidArgument) << what;
    EXPECT_THAT(status.message(), HasSubstr(what));
  };
  const auto with = [](const char* key, Json value) { return [=](Json& json) { json[key] = value; }; };
  Json deep = {{"type", "NFC"}};
  for (int i = 0; i < 9; ++i) deep = {{"type", "Sequence"}, {"normalizers", Json::array({deep})}};
  refuse(with("normalizer", deep), "nested");
  refuse(with("normalizer", {{"type", "BertNormalizer"}}), "BertNormalizer");
  refuse(with("normalizer", {{"type", "Replace"}, {"pattern", {{"Regex", "["}}}, {"content", ""}}), "unmatched [");
  refuse(with("pre_tokenizer", {{"type", "BertPreTokenizer"}}), "BertPreTokenizer");
  refuse(with("pre_tokenizer", {{"type", "Split"}, {"pattern", {{"Regex", "a"}}}, {"behavior", "Joined"}}), "Joined");
  refuse(with("pre_tokenizer", {{"type", "Split"}, {"behavior", "Isolated"}}), "pattern");
  refuse(with("pre_tokenizer", {{"type", "Split"}, {"pattern", {{"Regex", "(a"}}}}), "unmatched (");
  refuse(with("pre_tokenizer", {{"type", "Split"}, {"pattern", {{"Regex", "a)"}}}}), "unmatched )");
  refuse(with("pre_tokenizer", {{"type", "Split"}, {"pattern", {{"Regex", std::string(100, '[')}}}}), "nested");
  refuse(with("pre_tokenizer", {{"type", "FixedLength"}, {"length", 0}}), "length");
  refuse(with("decoder", {{"type", "WordPiece"}}), "WordPiece");
  refuse([](Json& json) { json["model"]["dropout"] = 0.1; }, "dropout");
}

// The library divides the digits by a power of ten, which is not always the nearest double.
TEST(TokenizerSteps, RoundsScoresLikeTheLibrary) {
  Json json = ReadGoldenJson("unigram/tokenizer.json");
  const double nearest = -9.215400695800781;
  json["model"]["vocab"][5][1] = nearest;
  json["model"]["vocab"][6][1] = -2.5;
  const TokenizerData data = *ReadTokenizerJson(json.dump());
  EXPECT_NE(data.scores[5], nearest);
  EXPECT_EQ(data.scores[5], -(9215400695800781.0 / 1e15));
  EXPECT_EQ(data.scores[6], -2.5);
}

TEST(TokenizerSteps, DecoderDecidesOnTheLeadingSpace) {
  const auto strips = [](const std::function<void(Json&)>& change) {
    Json json = ReadGoldenJson("llama2/tokenizer.json");
    change(json);
    return std::move(*MakeTokenizer(*ReadTokenizerJson(json.dump())))->strips_leading_space();
  };
  EXPECT_TRUE(strips([](Json&) {}));
  EXPECT_TRUE(strips([](Json& json) { json["decoder"] = nullptr; }));
  EXPECT_FALSE(strips([](Json& json) { json["decoder"]["decoders"].erase(3); }));
  EXPECT_TRUE(strips([](Json& json) { json["decoder"] = {{"type", "Metaspace"}, {"prepend_scheme", "first"}}; }));
  EXPECT_FALSE(strips([](Json& json) { json["decoder"] = {{"type", "Metaspace"}, {"prepend_scheme", "never"}}; }));
}

}  // namespace
}  // namespace ringside
