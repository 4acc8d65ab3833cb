// The tokenizer's contract beyond equal ids: special tokens, boundaries between pieces, end-of-turn tokens, malformed
// files.
#include "engine/text/tokenizer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <thread>

#include "engine/files/gguf_reader.h"
#include "engine/text/files/tokenizer_texts.h"
#include "engine/text/pipeline/patterns.h"
#include "engine/text/token_list.h"
#include "tests/engine/files/gguf_file_writer.h"
#include "tests/engine/text/encode_pieces.h"
#include "tests/engine/text/tokenizer_folder.h"
#include "tests/engine/text/tokenizer_strings.h"

namespace ringside {
namespace {

using Json = nlohmann::json;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

std::unique_ptr<Tokenizer> Qwen2() { return std::move(*MakeTokenizer(*ReadHuggingFaceTokenizer(GoldenPath("qwen2")))); }

std::string TextOf(const Tokenizer& tokenizer, const std::vector<TokenId>& ids) {
  std::string text;
  for (const TokenId id : ids) text += tokenizer.TokenBytes(id);
  return text;
}

TEST(Tokenizer, SpecialTokensAreParsedInMarkupOnly) {
  const auto tokenizer = Qwen2();
  const TokenId end = tokenizer->FindSpecial("<|im_end|>").value();
  EXPECT_TRUE(tokenizer->IsSpecial(end));
  EXPECT_EQ(tokenizer->TokenName(end), "<|im_end|>");
  EXPECT_EQ(tokenizer->TokenBytes(end), "");
  EXPECT_THAT(EncodePieces(*tokenizer, {{"<|im_end|>", true}}), ElementsAre(end));
  const std::vector<TokenId> content = EncodePieces(*tokenizer, {{"<|im_end|>", false}});
  EXPECT_THAT(content, ::testing::Each(::testing::Ne(end)));
  EXPECT_EQ(TextOf(*tokenizer, content), "<|im_end|>");
  // A marker split over two pieces is not special.
  EXPECT_THAT(EncodePieces(*tokenizer, {{"<|im_", true}, {"end|>", false}}), ::testing::Not(Contains(end)));
  EXPECT_THAT(EncodePieces(*tokenizer, {{"<|im_", true}, {"end|>", true}}), ::testing::Not(Contains(end)));
}

TEST(Tokenizer, ContentNeverEncodesToSpecialTokens) {
  for (const char* name : {"gpt2", "llama3", "qwen2", "tekken", "llama2", "mistral", "unigram", "mistral_tekken"}) {
    const auto tokenizer = std::move(*MakeTokenizer(*ReadHuggingFaceTokenizer(GoldenPath(name))));
    for (TokenId id = 0; id < tokenizer->vocab_size(); ++id) {
      if (!tokenizer->IsSpecial(id)) continue;
      const std::string spelling(tokenizer->TokenName(id));
      for (const TokenId got : EncodePieces(*tokenizer, {{"a" + spelling + spelling, false}})) {
        EXPECT_FALSE(tokenizer->IsSpecial(got)) << name << " " << spelling;
      }
    }
  }
}

TEST(Tokenizer, EncodesTextAcrossPieceBoundaries) {
  const auto tokenizer = Qwen2();
  GoldenStrings strings;
  for (uint64_t i = 100; i < 400; ++i) {
    const std::string text = strings.Make(i);
    const size_t cut = text.size() / 2;
    EXPECT_EQ(EncodePieces(*tokenizer, {{text.substr(0, cut), false}, {text.substr(cut), false}}),
              EncodePieces(*tokenizer, {{text, false}}));
  }
  EXPECT_EQ(EncodePieces(*tokenizer, {{"<|im_start|>user\n", true}, {"\nHello", false}}),
            EncodePieces(*tokenizer, {{"<|im_start|>user\n\nHello", true}}));
}

TEST(Tokenizer, UserDefinedTokensAreTextAnywhere) {
  const auto tokenizer = Qwen2();
  const std::vector<TokenId> ids = EncodePieces(*tokenizer, {{"a<tool_call>b", false}});
  ASSERT_EQ(ids.size(), 3u);
  EXPECT_EQ(tokenizer->TokenName(ids[1]), "<tool_call>");
  EXPECT_EQ(tokenizer->TokenBytes(ids[1]), "<tool_call>");
  EXPECT_FALSE(tokenizer->IsSpecial(ids[1]));
  EXPECT_EQ(tokenizer->FindSpecial("<tool_call>"), std::nullopt);
}

TEST(Tokenizer, IdsOutsideTheVocabularyDecodeToNothing) {
  const auto tokenizer = Qwen2();
  for (const int64_t id : {int64_t{-1}, tokenizer->vocab_size(), int64_t{INT32_MAX}, int64_t{INT32_MIN}}) {
    EXPECT_EQ(tokenizer->TokenBytes(static_cast<TokenId>(id)), "");
    EXPECT_EQ(tokenizer->TokenName(static_cast<TokenId>(id)), "");
    EXPECT_FALSE(tokenizer->IsSpecial(static_cast<TokenId>(id)));
  }
  EXPECT_THAT(EncodePieces(*tokenizer, {}), IsEmpty());
  EXPECT_THAT(EncodePieces(*tokenizer, {{"", true}, {"", false}}), IsEmpty());
}

TEST(Tokenizer, TokenMayStripTheFollowingSpace) {
  const auto tokenizer = std::move(*MakeTokenizer(*ReadHuggingFaceTokenizer(GoldenPath("llama2"))));
  const TokenId user = tokenizer->FindSpecial("<|user|>").value();
  const std::vector<TokenId> spaced = EncodePieces(*tokenizer, {{"<|user|> \n", true}, {" hi", false}});
  EXPECT_EQ(spaced, EncodePieces(*tokenizer, {{"<|user|>hi", true}}));
  EXPECT_EQ(spaced.front(), user);
}

TEST(Tokenizer, ManyThreadsShareOne) {
  const auto tokenizer = Qwen2();
  std::vector<std::vector<TokenId>> want;
  GoldenStrings strings;
  std::vector<std::string> texts;
  for (uint64_t i = 100; i < 200; ++i) texts.push_back(strings.Make(i));
  for (const std::string& text : texts) want.push_back(EncodePieces(*tokenizer, {{text, true}}));
  std::atomic<int> wrong = 0;
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      for (size_t i = 0; i < texts.size(); ++i) wrong += EncodePieces(*tokenizer, {{texts[i], true}}) != want[i];
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
}

TEST(Tokenizer, EncodesAMegabyteOfOneCharacter) {
  const auto bpe = Qwen2();
  const auto pieces = std::move(*MakeTokenizer(*ReadHuggingFaceTokenizer(GoldenPath("llama2"))));
  const auto unigram = std::move(*MakeTokenizer(*ReadHuggingFaceTokenizer(GoldenPath("unigram"))));
  for (const std::string unit : {" ", "a", "\n", "\u0323\u0301", "\xFF", "<", " \n", "9"}) {
    std::string text;
    while (text.size() < 1u << 20) text += unit;
    EXPECT_FALSE(EncodePieces(*bpe, {{text, true}}).empty());
    EXPECT_FALSE(EncodePieces(*pieces, {{text, true}}).empty());
    EXPECT_EQ(EncodePieces(*unigram, {{text, true}}).empty(), unit.find_first_not_of(" \n") == std::string::npos);
  }
}

TEST(Tokenizer, ExceedingTheLimitGivesNothing) {
  for (const char* name : {"gpt2", "llama3", "qwen2", "tekken", "llama2", "mistral", "unigram", "mistral_tekken"}) {
    const auto tokenizer = std::move(*MakeTokenizer(*ReadHuggingFaceTokenizer(GoldenPath(name))));
    GoldenStrings strings;
    for (uint64_t i = 0; i < 300; ++i) {
      const TextPiece piece{strings.Make(i), i % 2 == 0};
      const std::vector<TokenId> all = tokenizer->EncodeAll({&piece, 1});
      const auto count = static_cast<int64_t>(all.size());
      EXPECT_EQ(tokenizer->Encode({&piece, 1}, count), all) << name << " " << i;
      for (const int64_t fewer : {count - 1, count / 2, int64_t{0}, int64_t{-1}}) {
        if (fewer >= count) continue;
        EXPECT_EQ(tokenizer->Encode({&piece, 1}, fewer), std::nullopt) << name << " " << i;
      }
    }
  }
}

TEST(TokenList, ReportsFullForATextThatCannotFit) {
  for (const int64_t longest : {int64_t{8}, TokenList::kUnknown}) {
    TokenList ids(3, longest);
    EXPECT_TRUE(ids.HasRoomFor(std::string(24, 'x')));
    ids.Add(7);
    EXPECT_EQ(ids.HasRoomFor(std::string(24, 'x')), longest == TokenList::kUnknown);
    EXPECT_EQ(ids.Take().has_value(), longest == TokenList::kUnknown) << "it was told that the text is not added";
  }
}

// ---- tokenizer files ---

std::string ReadJsonText(const std::string& name) {
  std::ifstream file(GoldenPath(name + "/tokenizer.json"), std::ios::binary);
  std::stringstream bytes;
  bytes << file.rdbuf();
  return bytes.str();
}

TEST(TokenizerFiles, EndOfTurnTokensComeFromEverywhere) {
  TokenizerFolder folder;
  folder.Write("tokenizer.json", ReadJsonText("qwen2"));
  folder.Write("tokenizer_config.json", R"({"eos_token": {"content": "<|im_end|>"}, "bos_token": null})");
  folder.Write("generation_config.json", R"({"eos_token_id": [5, 7, 99999999]})");
  const Result<TokenizerData> data = folder.Read();
  ASSERT_TRUE(data.ok()) << data.status().ToString();
  const auto id_of = [&](const std::string& name) {
    return static_cast<TokenId>(std::ranges::find(data->tokens, name) - data->tokens.begin());
  };
  EXPECT_EQ(data->eos, id_of("<|im_end|>"));
  EXPECT_EQ(data->bos, std::nullopt);
  EXPECT_EQ(data->text_begin, std::nullopt);
  EXPECT_THAT(data->end_of_turn, ElementsAre(5, 7, id_of("<|endoftext|>"), id_of("<|im_end|>")));
}

TEST(TokenizerFiles, CallMarkersAreAnswerText) {
  Json json = Json::parse(ReadJsonText("qwen2"));
  const size_t id = json["model"]["vocab"].size() + json["added_tokens"].size();
  json["added_tokens"].push_back({{"id", id}, {"content", "[TOOL_CALLS]"}, {"special", true}});
  json["added_tokens"].push_back({{"id", id + 1}, {"content", "<|eom_id|>"}, {"special", true}});
  TokenizerFolder folder;
  folder.Write("tokenizer.json", json.dump());
  const Result<TokenizerData> data = folder.Read();
  ASSERT_TRUE(data.ok()) << data.status().ToString();
  const auto call = static_cast<TokenId>(id);
  EXPECT_THAT(data->end_of_turn, Contains(call + 1));
  const auto tokenizer = std::move(*MakeTokenizer(*data));
  EXPECT_TRUE(tokenizer->IsSpecial(call));
  EXPECT_EQ(tokenizer->TokenBytes(call), "[TOOL_CALLS]");
  EXPECT_THAT(EncodePieces(*tokenizer, {{"[TOOL_CALLS]", true}}), ElementsAre(call));
  EXPECT_THAT(EncodePieces(*tokenizer, {{"[TOOL_CALLS]", false}}), ::testing::Not(Contains(call)));
}

TEST(TokenizerFiles, PrefixTokensComeFromTheFileOrTheConfig) {
  const Result<TokenizerData> llama2 = ReadHuggingFaceTokenizer(GoldenPath("llama2"));
  EXPECT_EQ(llama2->text_begin, 1);
  EXPECT_EQ(llama2->bos, 1);
  EXPECT_EQ(llama2->eos, 2);
  Json json = Json::parse(ReadJsonText("llama3"));
  const auto id_of = [](const TokenizerData& data, const std::string& name) {
    return static_cast<TokenId>(std::ranges::find(data.tokens, name) - data.tokens.begin());
  };
  const auto begins_with = [&](const std::string& name) {
    json["post_processor"] = {{"type", "TemplateProcessing"},
                              {"single", {{{"SpecialToken", {{"id", name}, {"type_id", 0}}}}}}};
  };
  TokenizerFolder folder;
  folder.Write("tokenizer.json", json.dump());
  folder.Write("tokenizer_config.json", R"({"bos_token": "<|begin_of_text|>"})");
  EXPECT_EQ(folder.Read()->text_begin, std::nullopt);
  begins_with("<|begin_of_text|>");
  folder.Write("tokenizer.json", json.dump());
  Result<TokenizerData> data = folder.Read();
  EXPECT_EQ(data->text_begin, id_of(*data, "<|begin_of_text|>"));
  folder.Write("tokenizer_config.json", R"({"bos_token": "<|begin_of_text|>", "add_bos_token": false})");
  EXPECT_EQ(folder.Read()->text_begin, std::nullopt);
  // XGLM's texts begin with a token other than bos_token.
  begins_with("<|eot_id|>");
  folder.Write("tokenizer.json", json.dump());
  folder.Write("tokenizer_config.json", R"({"bos_token": "<|begin_of_text|>"})");
  data = folder.Read();
  EXPECT_EQ(data->bos, id_of(*data, "<|begin_of_text|>"));
  EXPECT_EQ(data->text_begin, id_of(*data, "<|eot_id|>"));
}

TEST(TokenizerFiles, SomeFamiliesAddAPrefixTokenByDefault) {
  const std::string path = ::testing::TempDir() + "/begins.gguf";
  const auto text_begin = [&](const std::string& pre, std::optional<bool> says) {
    GgufFileWriter file;
    file.String("tokenizer.ggml.model", "gpt2").String("tokenizer.ggml.pre", pre);
    file.Strings("tokenizer.ggml.tokens", {"a", "b", "ab", "<s>"}).Strings("tokenizer.ggml.merges", {"a b"});
    file.U32("tokenizer.ggml.bos_token_id", 3);
    if (says) file.Key("tokenizer.ggml.add_bos_token", 7, std::string(1, *says ? 1 : 0));
    std::ofstream(path, std::ios::binary) << file.Finish();
    return ReadGgufTokenizer(*GgufFile::Open(path))->text_begin;
  };
  EXPECT_EQ(text_begin("llama-bpe", std::nullopt), 3);
  EXPECT_EQ(text_begin("tekken", std::nullopt), 3);
  EXPECT_EQ(text_begin("llama-bpe", false), std::nullopt);
  EXPECT_EQ(text_begin("qwen2", std::nullopt), std::nullopt);
  EXPECT_EQ(text_begin("qwen2", true), 3);
  EXPECT_EQ(ReadGgufTokenizer(*GgufFile::Open(GoldenPath("sentencepiece.gguf")))->text_begin, 1);
  std::filesystem::remove(path);
}

TEST(TokenizerFiles, TextWithItsPrefixTokenGetsNoOther) {
  std::vector<TokenId> ids = {5, 6};
  BeginText(std::nullopt, &ids);
  EXPECT_THAT(ids, ElementsAre(5, 6));
  BeginText(1, &ids);
  BeginText(1, &ids);
  EXPECT_THAT(ids, ElementsAre(1, 5, 6));
  ids.clear();
  BeginText(1, &ids);
  EXPECT_THAT(ids, ElementsAre(1));
}

TEST(TokenizerFiles, MarkupSpellingsAreAlwaysSpecial) {
  Json json = Json::parse(ReadJsonText("qwen2"));
  for (Json& token : json["added_tokens"]) token["special"] = false;
  TokenizerFolder folder;
  folder.Write("tokenizer.json", json.dump());
  const auto tokenizer = std::move(*MakeTokenizer(*folder.Read()));
  EXPECT_TRUE(tokenizer->FindSpecial("<|im_start|>").has_value());
  EXPECT_FALSE(tokenizer->FindSpecial("<tool_call>").has_value());
}

TEST(TokenizerFiles, RefusesUnsupportedFeaturesByName) {
  const auto refuse = [](const char* name, const std::function<void(Json&)>& change, const std::string& what) {
    Json json = Json::parse(ReadJsonText(name));
    change(json);
    TokenizerFolder folder;
    folder.Write("tokenizer.json", json.dump());
    const Result<TokenizerData> data = folder.Read();
    if (data.ok()) {
      const auto made = MakeTokenizer(*data);
      ASSERT_FALSE(made.ok()) << what;
      EXPECT_THAT(made.status().message(), HasSubstr(what));
    } else {
      EXPECT_EQ(data.status().code(), StatusCode::kInvalidArgument);
      EXPECT_THAT(data.status().message(), HasSubstr(what));
    }
  };
  refuse(
      "gpt2", [](Json& j) { j["model"]["type"] = "Unigram"; }, "Unigram");
  refuse(
      "gpt2", [](Json& j) { j["model"]["type"] = "WordPiece"; }, "WordPiece");
  refuse(
      "unigram", [](Json& j) { j["model"]["unk_id"] = 1 << 20; }, "unk_id");
  refuse(
      "unigram", [](Json& j) { j["model"]["vocab"][7] = {"x"}; }, "score");
  refuse(
      "unigram", [](Json& j) { j["normalizer"]["normalizers"][0]["precompiled_charsmap"] = "AAA"; }, "base64");
  refuse(
      "unigram", [](Json& j) { j["normalizer"]["normalizers"][0]["precompiled_charsmap"] = "////AAAA"; }, "charsmap");
  refuse(
      "gpt2",
      [](Json& j) {
        j["pre_tokenizer"] = {{"type", "BertPreTokenizer"}};
      },
      "BertPreTokenizer");
  refuse(
      "gpt2", [](Json& j) { j["model"]["merges"][0] = "nospace"; }, "nospace");
  refuse(
      "gpt2",
      [](Json& j) {
        j["model"]["merges"][0] = {"zzzzz", "yyyyy"};
      },
      "zzzzz");
  refuse(
      "gpt2", [](Json& j) { j["model"]["vocab"]["x"] = -4; }, "valid id");
  refuse(
      "gpt2", [](Json& j) { j["model"]["vocab"]["x"] = int64_t{1} << 40; }, "valid id");
  refuse(
      "gpt2", [](Json& j) { j["model"].erase("vocab"); }, "vocab");
  refuse(
      "gpt2", [](Json& j) { j["model"]["end_of_word_suffix"] = "</w>"; }, "end_of_word_suffix");
  TokenizerFolder empty;
  EXPECT_EQ(empty.Read().status().code(), StatusCode::kIo);
  empty.Write("tokenizer.json", "{");
  EXPECT_EQ(empty.Read().status().code(), StatusCode::kInvalidArgument);
  empty.Write("tokenizer.json", std::string(1 << 20, '['));
  EXPECT_EQ(empty.Read().status().code(), StatusCode::kInvalidArgument);
}

TEST(TokenizerFiles, Tekken) {
  const Result<TokenizerData> data = ReadHuggingFaceTokenizer(GoldenPath("mistral_tekken"));
  ASSERT_TRUE(data.ok()) << data.status().ToString();
  EXPECT_EQ(data->bos, 1);
  EXPECT_EQ(data->text_begin, 1);
  EXPECT_THAT(data->end_of_turn, ElementsAre(2));
  EXPECT_EQ(data->tokens[9], "[TOOL_CALLS]");
  EXPECT_EQ(data->tokens[29], "<SPECIAL_29>");
  const auto tokenizer = std::move(*MakeTokenizer(*data));
  EXPECT_THAT(EncodePieces(*tokenizer, {{"<s>[INST]!", true}}), ElementsAre(1, 3, 30 + '!'));

  std::ifstream file(GoldenPath("mistral_tekken/tekken.json"));
  const Json original = Json::parse(file);
  Json named = original;
  named["special_tokens"] = Json::array({{{"rank", 4}, {"token_str", "[MINE]"}, {"is_control", true}}});
  EXPECT_EQ(ReadTekken(named.dump())->tokens[4], "[MINE]");
  EXPECT_EQ(ReadTekken(named.dump())->tokens[3], "<SPECIAL_3>");
  const auto refuse = [&](const std::function<void(Json&)>& change, const std::string& what) {
    Json json = original;
    change(json);
    const Result<TokenizerData> read = ReadTekken(json.dump());
    EXPECT_EQ(read.status().code(), StatusCode::kInvalidArgument) << what;
    EXPECT_THAT(read.status().message(), HasSubstr(what));
  };
  refuse([](Json& j) { j["config"].erase("pattern"); }, "pattern");
  refuse([](Json& j) { j["config"]["default_vocab_size"] = int64_t{1} << 50; }, "size");
  refuse([](Json& j) { j["config"]["default_num_special_tokens"] = -1; }, "size");
  refuse([](Json& j) { j["config"]["default_vocab_size"] = 20000; }, "smaller");
  refuse([](Json& j) { j["vocab"][300]["rank"] = 299; }, "token 300");
  refuse([](Json& j) { j["vocab"][300]["token_bytes"] = "?"; }, "token 300");
  refuse([](Json& j) { j["vocab"][65]["token_bytes"] = "QkI="; }, "first tokens");
  refuse([](Json& j) { j["special_tokens"] = {{{"rank", 99}, {"token_str", "x"}}}; }, "rank");
  refuse([](Json& j) { j["vocab"] = nullptr; }, "smaller");
  EXPECT_EQ(ReadTekken("[").status().code(), StatusCode::kInvalidArgument);
}

// Any value of any type anywhere: a Status or a working tokenizer, never a crash.
TEST(TokenizerFiles, RefusesUnexpectedShapes) {
  const std::vector<Json> odd = {
      nullptr, true, -1, 1e300, "x", "", Json::array(), Json::object(), Json::array({1, nullptr})};
  for (const char* name : {"gpt2", "llama3", "llama2", "mistral", "unigram"}) {
    const Json original = Json::parse(ReadJsonText(name));
    std::vector<std::string> places;
    const Json flat = original.flatten();
    for (const auto& [place, value] : flat.items()) {
      if (place.starts_with("/model/vocab/") && places.size() % 97 != 0) continue;
      for (size_t slash = place.find('/', 1); slash != std::string::npos; slash = place.find('/', slash + 1)) {
        places.push_back(place.substr(0, slash));
      }
      places.push_back(place);
    }
    std::ranges::sort(places);
    const auto repeated = std::ranges::unique(places);
    places.erase(repeated.begin(), repeated.end());
    int read = 0;
    for (size_t i = 0; i < places.size(); i += places[i].starts_with("/model/") ? 37 : 1) {
      Json json = original;
      json[Json::json_pointer(places[i])] = odd[i % odd.size()];
      TokenizerFolder folder;
      folder.Write("tokenizer.json", json.dump(-1, ' ', false, Json::error_handler_t::replace));
      Result<TokenizerData> data = folder.Read();
      if (!data.ok()) continue;
      const auto tokenizer = MakeTokenizer(std::move(*data));
      if (tokenizer.ok()) (*tokenizer)->EncodeAll(std::vector<TextPiece>{{"Hello  world \xF0\x9F", true}});
      ++read;
    }
    EXPECT_GT(read, 0);
  }
}

TEST(MakeTokenizer, RefusesInconsistentData) {
  const auto data = [] {
    TokenizerData d;
    d.tokens = {"a", "b", "ab"};
    d.types.assign(3, TokenizerData::TokenType::kNormal);
    d.scores = {0, 0, -1};
    d.merges = {{"a", "b"}};
    return d;
  };
  EXPECT_TRUE(MakeTokenizer(data()).ok());
  const auto refuse = [&](const std::function<void(TokenizerData&)>& change) {
    TokenizerData d = data();
    change(d);
    EXPECT_EQ(MakeTokenizer(std::move(d)).status().code(), StatusCode::kInvalidArgument);
  };
  refuse([](TokenizerData& d) { d.tokens.clear(); });
  refuse([](TokenizerData& d) { d.types.pop_back(); });
  refuse([](TokenizerData& d) { d.eos = 3; });
  refuse([](TokenizerData& d) { d.bos = -1; });
  refuse([](TokenizerData& d) { d.added = {{.id = 7}}; });
  refuse([](TokenizerData& d) { d.merges.push_back({"a", "a"}); });
  refuse([](TokenizerData& d) { d.pre_tokenizer = {Isolate("[")}; });
  refuse([](TokenizerData& d) { d.tokens[0] = std::string(5000, 'a'); });
  refuse([](TokenizerData& d) {
    d.kind = TokenizerData::Kind::kSentencePieceBpe;
    d.merges.clear();
    d.scores.pop_back();
  });
  refuse([](TokenizerData& d) {
    d.kind = TokenizerData::Kind::kUnigram;
    d.scores.pop_back();
  });
  refuse([](TokenizerData& d) {
    d.kind = TokenizerData::Kind::kUnigram;
    d.scores[1] = -std::numeric_limits<double>::infinity();
  });
  refuse([](TokenizerData& d) {
    d.kind = TokenizerData::Kind::kUnigram;
    d.charsmap = "no rules";
  });
  refuse([](TokenizerData& d) {
    d.kind = TokenizerData::Kind::kSentencePieceBpe;
    d.merges.clear();
    d.scores[1] = std::numeric_limits<double>::quiet_NaN();
  });
}

TEST(RealModelTokenizer, ReadsTheModelsFacts) {
  const char* model = std::getenv("RINGSIDE_TEST_MODEL");
  if (model == nullptr) GTEST_SKIP() << "RINGSIDE_TEST_MODEL is not set";
  const Result<GgufFile> file = GgufFile::Open(model);
  const Result<TokenizerData> data = ReadGgufTokenizer(*file);
  ASSERT_TRUE(data.ok()) << data.status().ToString();
  EXPECT_EQ(data->text_begin, std::nullopt);
  EXPECT_EQ(data->bos, 1);
  EXPECT_EQ(data->eos, 2);
  EXPECT_THAT(data->end_of_turn, ElementsAre(0, 2));
  const auto tokenizer = std::move(*MakeTokenizer(*data));
  EXPECT_EQ(tokenizer->vocab_size(), 49152);
  EXPECT_EQ(tokenizer->FindSpecial("<|im_end|>"), 2);
  // Two spaces before a digit: the digit is separate, so the spaces are one token.
  EXPECT_EQ(EncodePieces(*tokenizer, {{"a  1", false}}).size(), 3u);
}

}  // namespace
}  // namespace ringside
