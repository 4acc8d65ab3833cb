// Ids equal to the reference libraries', string by string; see tests/golden/make_tokenizer_golden.py.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>

#include "engine/files/gguf_reader.h"
#include "engine/text/detokenizer.h"
#include "engine/text/files/tokenizer_texts.h"
#include "engine/text/tokenizer.h"
#include "engine/text/unicode.h"
#include "tests/engine/text/tokenizer_strings.h"

namespace ringside {
namespace {

std::unique_ptr<Tokenizer> FromGguf(const std::string& path) {
  const Result<GgufFile> file = GgufFile::Open(path);
  Result<TokenizerData> data = ReadGgufTokenizer(*file);
  return std::move(*MakeTokenizer(std::move(*data)));
}

std::unique_ptr<Tokenizer> FromFolder(const std::string& name) {
  Result<TokenizerData> data = ReadHuggingFaceTokenizer(GoldenPath(name));
  return std::move(*MakeTokenizer(std::move(*data)));
}

std::vector<TokenId> EncodeOne(const Tokenizer& tokenizer, std::string text, bool markup) {
  const TextPiece piece{std::move(text), markup};
  return tokenizer.EncodeAll({&piece, 1});
}

std::string Decode(const Tokenizer& tokenizer, const std::vector<TokenId>& ids) {
  Detokenizer detokenizer(tokenizer, /*at_start=*/true);
  std::string text;
  for (const TokenId id : ids) text += detokenizer.Push(id);
  return text + detokenizer.Finish();
}

std::string Describe(const std::string& text, const std::vector<TokenId>& ids) {
  std::string out = ::testing::PrintToString(text.substr(0, 300)) + " ->";
  for (size_t i = 0; i < std::min<size_t>(ids.size(), 60); ++i) out += " " + std::to_string(ids[i]);
  return out;
}

struct Golden {
  bool with_markup = true;          // the digests also cover the text encoded as markup
  bool nfc = false;                 // decoded text is normalized
  bool keeps_leading_space = true;  // otherwise a text's leading space is lost
};

// Both encodings against the digests of `golden`; decoding restores the text.
void ExpectGolden(const Tokenizer& tokenizer, const std::string& golden, const Golden& options) {
  const std::vector<uint32_t> want = ReadDigests(golden);
  GoldenStrings strings;
  std::set<uint8_t> known_bytes;  // a vocabulary may lack bytes absent from its training data; they vanish
  for (TokenId id = 0; id < tokenizer.vocab_size(); ++id) {
    const std::string_view bytes = tokenizer.TokenBytes(id);
    known_bytes.insert(bytes.begin(), bytes.end());
  }
  int failures = 0, round_trips = 0;
  for (size_t i = 0; i < want.size() && failures < 5; ++i) {
    const std::string text = strings.Make(i);
    const std::vector<TokenId> ids = EncodeOne(tokenizer, text, false);
    Digest digest;
    for (const TokenId id : ids) digest.Add(static_cast<uint32_t>(id));
    if (options.with_markup) {
      digest.Add(0xFFFFFFFFu);
      for (const TokenId id : EncodeOne(tokenizer, text, true)) digest.Add(static_cast<uint32_t>(id));
    }
    EXPECT_EQ(digest.value(), want[i]) << golden << " " << i << ": " << Describe(text, ids);
    failures += digest.value() != want[i];
    std::string valid = ToValidUtf8(text);
    if (options.nfc) valid = NormaliseNfc(valid);
    if (std::any_of(valid.begin(), valid.end(),
                    [&](char c) { return !known_bytes.contains(static_cast<uint8_t>(c)); })) {
      continue;
    }
    if (tokenizer.strips_leading_space() && valid.find("\u2581") != std::string::npos)
      continue;  // it represents a
                 // space
    if (!options.keeps_leading_space && valid.starts_with(' ')) continue;
    const bool same = Decode(tokenizer, ids) == valid;
    EXPECT_TRUE(same) << golden << " " << i << " does not come back: " << Describe(text, ids);
    failures += !same;
    ++round_trips;
  }
  EXPECT_GT(round_trips, static_cast<int>(want.size()) / 2);
}

std::string ReadGoldenFile(const std::string& name) {
  std::ifstream file(GoldenPath(name), std::ios::binary);
  std::stringstream bytes;
  bytes << file.rdbuf();
  return bytes.str();
}

std::unique_ptr<Tokenizer> FromModel(const std::string& name) {
  return std::move(*MakeTokenizer(*ReadSentencePieceModel(ReadGoldenFile(name + ".model"))));
}

// Ids of ten thousand strings, and their decoded text where every piece is known, against SentencePiece's.
void ExpectSentencePiece(const Tokenizer& tokenizer, const std::string& golden) {
  const std::vector<uint32_t> want = ReadDigests(golden);
  ASSERT_GE(want.size(), 10'000u);
  GoldenStrings strings;
  int failures = 0, decoded = 0;
  for (size_t i = 0; i < want.size() && failures < 5; ++i) {
    const std::string text = strings.Make(i);
    const std::vector<TokenId> ids = EncodeOne(tokenizer, text, false);
    Digest digest;
    for (const TokenId id : ids) digest.Add(static_cast<uint32_t>(id));
    if (text.find("\u2581") == std::string::npos &&  // it represents a space
        std::ranges::none_of(ids, [&](TokenId id) { return tokenizer.IsSpecial(id); })) {
      digest.Add(0xFFFFFFFFu);
      for (const char c : Decode(tokenizer, ids)) digest.Add(static_cast<uint8_t>(c));
      ++decoded;
    }
    EXPECT_EQ(digest.value(), want[i]) << golden << " " << i << ": " << Describe(text, ids);
    failures += digest.value() != want[i];
  }
  EXPECT_GT(decoded, 700);
}

// Ids of ten thousand strings as content and as markup against those of `tokenizers`.
void ExpectTokenizers(const Tokenizer& tokenizer, const std::string& golden) {
  const std::vector<uint32_t> want = ReadDigests(golden);
  ASSERT_GE(want.size(), 10'000u);
  GoldenStrings strings;
  int failures = 0;
  for (size_t i = 0; i < want.size() && failures < 5; ++i) {
    const std::string text = strings.Make(i);
    const std::vector<TokenId> ids = EncodeOne(tokenizer, text, false);
    Digest digest;
    for (const TokenId id : ids) digest.Add(static_cast<uint32_t>(id));
    digest.Add(0xFFFFFFFFu);
    for (const TokenId id : EncodeOne(tokenizer, text, true)) digest.Add(static_cast<uint32_t>(id));
    EXPECT_EQ(digest.value(), want[i]) << golden << " " << i << ": " << Describe(text, ids);
    failures += digest.value() != want[i];
  }
}

TEST(RealModelTokenizer, EqualsTheReferenceOnTwelveThousandStrings) {
  const char* model = std::getenv("RINGSIDE_TEST_MODEL");
  if (model == nullptr) GTEST_SKIP() << "RINGSIDE_TEST_MODEL is not set";
  ASSERT_GE(ReadDigests("smollm2").size(), 10'000u);
  const auto tokenizer = FromGguf(model);
  ExpectGolden(*tokenizer, "smollm2", {});
}

TEST(TokenizerGolden, Gpt2) { ExpectGolden(*FromFolder("gpt2"), "gpt2", {}); }
TEST(TokenizerGolden, Llama3) { ExpectGolden(*FromFolder("llama3"), "llama3", {}); }
TEST(TokenizerGolden, Llama3FromGguf) { ExpectGolden(*FromGguf(GoldenPath("llama3.gguf")), "llama3", {}); }
TEST(TokenizerGolden, Qwen2) { ExpectGolden(*FromFolder("qwen2"), "qwen2", {.nfc = true}); }
TEST(TokenizerGolden, Qwen2FromGguf) { ExpectGolden(*FromGguf(GoldenPath("qwen2.gguf")), "qwen2", {.nfc = true}); }
TEST(TokenizerGolden, Tekken) { ExpectGolden(*FromFolder("tekken"), "tekken", {}); }
TEST(TokenizerGolden, TekkenFromItsOwnFile) {
  ASSERT_GE(ReadDigests("mistral_tekken").size(), 10'000u);
  ExpectGolden(*FromFolder("mistral_tekken"), "mistral_tekken", {.with_markup = false});
}
TEST(TokenizerGolden, O200k) { ExpectGolden(*FromFolder("o200k"), "o200k", {}); }
TEST(TokenizerGolden, O200kFromGguf) { ExpectGolden(*FromGguf(GoldenPath("o200k.gguf")), "o200k", {}); }
TEST(TokenizerGolden, SingleDigits) { ExpectGolden(*FromFolder("digits"), "digits", {}); }
TEST(TokenizerGolden, SentencePieceFromGguf) {
  ExpectGolden(*FromGguf(GoldenPath("sentencepiece.gguf")), "sentencepiece", {.with_markup = false});
}
TEST(TokenizerGolden, Llama2WithPrependedSpace) { ExpectGolden(*FromFolder("llama2"), "llama2", {}); }
TEST(TokenizerGolden, MistralWithMetaspace) {
  ExpectGolden(*FromFolder("mistral"), "mistral", {.keeps_leading_space = false});
}

TEST(TokenizerGolden, SentencePieceFromItsOwnFile) {
  ExpectGolden(*FromModel("sentencepiece"), "sentencepiece", {.with_markup = false});
}
TEST(TokenizerGolden, Unigram) { ExpectSentencePiece(*FromModel("unigram"), "unigram"); }
TEST(TokenizerGolden, UnigramFromGguf) { ExpectSentencePiece(*FromGguf(GoldenPath("unigram.gguf")), "unigram"); }
TEST(TokenizerGolden, UnigramWithBytes) { ExpectSentencePiece(*FromModel("unigram_bytes"), "unigram_bytes"); }
TEST(TokenizerGolden, UnigramFromTokenizerJson) { ExpectTokenizers(*FromFolder("unigram"), "unigram_json"); }

TEST(TokenizerGolden, UnigramWithWhiteSpaceSeparation) {
  nlohmann::json json = nlohmann::json::parse(ReadGoldenFile("unigram/tokenizer.json"));
  auto& steps = json["normalizer"]["normalizers"];
  steps.erase(1);  // Strip
  steps[1]["content"] = " ";
  json["pre_tokenizer"] = {{"type", "Sequence"},
                           {"pretokenizers", {{{"type", "WhitespaceSplit"}}, json["pre_tokenizer"]}}};
  ExpectTokenizers(**MakeTokenizer(*ReadTokenizerJson(json.dump())), "unigram_older");
}

// Bytes to text, whole and byte by byte, as Python's decoders do it.
class ByteTokens : public Tokenizer {
 public:
  ByteTokens() {
    for (int i = 0; i < 256; ++i) bytes_[i] = static_cast<char>(i);
  }
  std::optional<std::vector<TokenId>> Encode(std::span<const TextPiece>, int64_t) const override { return {}; }
  std::string_view TokenBytes(TokenId id) const override { return id < 256 ? std::string_view(&bytes_[id], 1) : ""; }
  std::string_view TokenName(TokenId) const override { return ""; }
  bool IsSpecial(TokenId id) const override { return id >= 256; }
  std::optional<TokenId> FindSpecial(std::string_view) const override { return std::nullopt; }
  int64_t vocab_size() const override { return 257; }
  bool strips_leading_space() const override { return false; }

 private:
  char bytes_[256];
};

TEST(TokenizerGolden, DecodingWithReplacementEqualsPython) {
  const std::vector<uint32_t> want = ReadDigests("text");
  const ByteTokens tokens;
  GoldenStrings strings;
  for (size_t i = 0; i < want.size(); ++i) {
    const std::string bytes = strings.Make(i);
    Digest digest;
    for (const char c : ToValidUtf8(bytes)) digest.Add(static_cast<uint8_t>(c));
    bool half_surrogate = false;  // Python holds back one byte longer than necessary
    for (size_t k = 0; k + 1 < bytes.size(); ++k) {
      half_surrogate |= bytes[k] == '\xED' && static_cast<uint8_t>(bytes[k + 1]) >= 0xA0 &&
                        static_cast<uint8_t>(bytes[k + 1]) <= 0xBF;
    }
    Detokenizer detokenizer(tokens);
    std::string text;
    for (const char c : bytes) {
      const std::string part = detokenizer.Push(static_cast<uint8_t>(c));
      if (!half_surrogate) digest.Add(static_cast<uint32_t>(part.size()));
      text += part;
    }
    const std::string rest = detokenizer.Finish();
    if (!half_surrogate) digest.Add(static_cast<uint32_t>(rest.size()));
    ASSERT_EQ(digest.value(), want[i]) << i << ": " << ::testing::PrintToString(bytes.substr(0, 300));
    ASSERT_EQ(text + rest, ToValidUtf8(bytes)) << i;
  }
}

}  // namespace
}  // namespace ringside
