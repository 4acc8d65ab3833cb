// SentencePiece's own files: parsed fields, file locations, refusals. tokenizer_golden_test.cpp checks that ids equal
// the library's.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <bit>
#include <fstream>
#include <sstream>

#include "engine/text/files/tokenizer_texts.h"
#include "engine/text/sentencepiece/charsmap.h"
#include "tests/engine/text/encode_pieces.h"
#include "tests/engine/text/tokenizer_folder.h"
#include "tests/engine/text/tokenizer_strings.h"

namespace ringside {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using TokenType = TokenizerData::TokenType;

std::string ReadModel(const std::string& name) {
  std::ifstream file(GoldenPath(name + ".model"), std::ios::binary);
  std::stringstream bytes;
  bytes << file.rdbuf();
  return bytes.str();
}

// ---- protocol buffers ----

std::string Varint(uint64_t value) {
  std::string out;
  for (; value >= 0x80; value >>= 7) out.push_back(static_cast<char>(value | 0x80));
  return out + static_cast<char>(value);
}
std::string Number(int field, uint64_t value) { return Varint(static_cast<uint64_t>(field) << 3) + Varint(value); }
std::string Bytes(int field, const std::string& value) {
  return Varint(static_cast<uint64_t>(field) << 3 | 2) + Varint(value.size()) + value;
}
std::string Float(int field, float value) {
  std::string out = Varint(static_cast<uint64_t>(field) << 3 | 5);
  for (int i = 0; i < 4; ++i) out.push_back(static_cast<char>(std::bit_cast<uint32_t>(value) >> (8 * i)));
  return out;
}
std::string Piece(const std::string& name, float score, uint64_t type) {
  return Bytes(1, Bytes(1, name) + Float(2, score) + Number(3, type));
}
// Pieces <unk>, <s>, </s>, a, b, ab.
std::string Pieces() {
  return Piece("<unk>", 0, 2) + Piece("<s>", 0, 3) + Piece("</s>", 0, 3) + Piece("a", -2, 1) + Piece("b", -2, 1) +
         Piece("ab", -3, 1) + Piece("\u2581", -1, 1);
}

TEST(SentencePieceModel, MissingFieldsHaveDefaults) {
  const Result<TokenizerData> data = ReadSentencePieceModel(Pieces());
  ASSERT_TRUE(data.ok()) << data.status().ToString();
  EXPECT_EQ(data->kind, TokenizerData::Kind::kUnigram);
  EXPECT_EQ(data->unknown, 0);
  EXPECT_EQ(data->bos, 1);
  EXPECT_EQ(data->eos, 2);
  EXPECT_EQ(data->text_begin, std::nullopt);
  EXPECT_TRUE(data->white_space.collapse);
  EXPECT_TRUE(data->white_space.prefix);
  const auto tokenizer = std::move(*MakeTokenizer(*data));
  EXPECT_THAT(EncodePieces(*tokenizer, {{"  ab  b ", false}}), ElementsAre(6, 5, 6, 4));
  // White space alone between special tokens yields nothing, and every other text between them gets a leading space.
  EXPECT_THAT(EncodePieces(*tokenizer, {{"<s>  </s>a", true}}), ElementsAre(1, 2, 6, 3));
  EXPECT_THAT(EncodePieces(*tokenizer, {{"axxya", false}}), ElementsAre(6, 3, 0, 3))
      << "one token for unknown characters";
}

TEST(SentencePieceModel, ReadsItsSettings) {
  const std::string trainer = Bytes(2, Number(3, 2) + Bytes(46, "</s>") + Bytes(47, "<s>"));
  const std::string normalizer = Bytes(3, Number(3, 0) + Number(4, 0) + Bytes(7, "passed over"));
  const Result<TokenizerData> data = ReadSentencePieceModel(Pieces() + trainer + normalizer + Float(99, 1));
  ASSERT_TRUE(data.ok()) << data.status().ToString();
  EXPECT_EQ(data->kind, TokenizerData::Kind::kSentencePieceBpe);
  EXPECT_EQ(data->bos, 2);
  EXPECT_EQ(data->eos, 1);
  EXPECT_EQ(data->text_begin, 2);
  EXPECT_FALSE(data->white_space.prefix);
  EXPECT_THAT(EncodePieces(**MakeTokenizer(*data), {{" ab  b", false}}), ElementsAre(6, 5, 6, 6, 4));
}

TEST(SentencePieceModel, RefusesInvalidFieldsByName) {
  const auto refused = [](const std::string& bytes) {
    const Result<TokenizerData> data = ReadSentencePieceModel(bytes);
    EXPECT_EQ(data.status().code(), StatusCode::kInvalidArgument);
    return data.ok() ? std::string() : data.status().message();
  };
  EXPECT_THAT(refused(""), HasSubstr("no pieces"));
  EXPECT_THAT(refused("{}"), HasSubstr("not a protocol buffer"));
  EXPECT_THAT(refused(Pieces() + Varint(5 << 3 | 3)), HasSubstr("not a protocol buffer")) << "a group";
  EXPECT_THAT(refused(Pieces() + Varint(1 << 3 | 2) + Varint(uint64_t{1} << 60)), HasSubstr("truncated"));
  EXPECT_THAT(refused(Piece("a", 0, 7)), HasSubstr("type 7"));
  EXPECT_THAT(refused(Pieces() + Piece("other", 0, 2)), HasSubstr("two unknown"));
  EXPECT_THAT(refused(Pieces() + Bytes(2, Number(3, 3))), HasSubstr("model_type 3"));
  EXPECT_THAT(refused(Pieces() + Bytes(2, Number(24, 1))), HasSubstr("treat_whitespace_as_suffix"));
  EXPECT_THAT(refused(Pieces() + Bytes(3, Number(5, 0))), HasSubstr("escape_whitespaces"));
  EXPECT_THAT(refused(Pieces() + Bytes(2, "\xFF")), HasSubstr("trainer_spec"));
  const std::string whole = ReadModel("unigram_bytes");
  for (size_t size = 0; size < whole.size(); size += 211) {
    const Result<TokenizerData> data = ReadSentencePieceModel(std::string_view(whole).substr(0, size));
    EXPECT_LT(data.ok() ? data->tokens.size() : 0, 1001u) << "what is there up to the end of a field";
  }
}

TEST(SentencePieceModel, FolderAddsItsTokens) {
  TokenizerFolder folder;
  EXPECT_FALSE(HasTokenizerFile(folder.path()));
  folder.Write("spiece.model", Pieces());
  folder.Write("tokenizer_config.json", R"({"bos_token": null, "eos_token": "</s>",
      "added_tokens_decoder": {"0": {"content": "<unk>", "special": true}, "3": {"content": "c", "special": false},
                               "9": {"content": "<extra_id_0>", "special": true, "rstrip": true}}})");
  EXPECT_TRUE(HasTokenizerFile(folder.path()));
  const Result<TokenizerData> data = folder.Read();
  ASSERT_TRUE(data.ok()) << data.status().ToString();
  EXPECT_EQ(data->bos, std::nullopt);
  EXPECT_EQ(data->types[0], TokenType::kUnknown);
  EXPECT_EQ(data->types[3], TokenType::kUserDefined);
  EXPECT_EQ(data->types[8], TokenType::kUnused);
  EXPECT_THAT(data->end_of_turn, ElementsAre(2));
  EXPECT_THAT(EncodePieces(**MakeTokenizer(*data), {{"bc<extra_id_0> b", true}}), ElementsAre(6, 4, 3, 9, 6, 4));
  folder.Write("tokenizer_config.json", R"({"added_tokens_decoder": {"x": {"content": "y"}}})");
  EXPECT_EQ(folder.Read().status().code(), StatusCode::kInvalidArgument);
}

// facebook/xglm-564M: fairseq's <s>, <pad>, </s> and <unk>, then the file's pieces without its first three, then seven
// more words.
TEST(SentencePieceModel, XglmUsesFairseqIds) {
  TokenizerFolder folder;
  const auto copy = [&](const std::string& bytes) { folder.Write("sentencepiece.bpe.model", bytes); };
  copy(ReadModel("unigram"));
  folder.Write("tokenizer_config.json", R"({"bos_token": "<s>", "eos_token": "</s>"})");
  EXPECT_TRUE(HasTokenizerFile(folder.path()));
  const Result<TokenizerData> data = folder.Read();
  const Result<TokenizerData> own = ReadSentencePieceModel(ReadModel("unigram"));
  ASSERT_TRUE(data.ok()) << data.status().ToString();
  EXPECT_EQ(data->tokens.size(), own->tokens.size() + 8);
  EXPECT_THAT(std::vector(data->tokens.begin(), data->tokens.begin() + 4),
              ElementsAre("<s>", "<pad>", "</s>", "<unk>"));
  EXPECT_EQ(data->tokens.back(), "<madeupword6>");
  EXPECT_EQ(data->bos, 0);
  EXPECT_EQ(data->eos, 2);
  EXPECT_EQ(data->text_begin, 2) << "a text begins with </s>";
  const auto tokenizer = std::move(*MakeTokenizer(*data)), theirs = std::move(*MakeTokenizer(*own));
  GoldenStrings strings;
  size_t unknown = 0;
  for (uint64_t i = strings.long_runs(); i < 2000; ++i) {
    const std::string text = strings.Make(i);
    std::vector<TokenId> expected = EncodePieces(*theirs, {{text, false}});
    for (TokenId& id : expected) {
      unknown += id == own->unknown ? 1 : 0;
      id = id == own->unknown ? 3 : id + 1;
    }
    ASSERT_EQ(EncodePieces(*tokenizer, {{text, false}}), expected) << text;
  }
  EXPECT_GT(unknown, 100u);
  copy(Piece("a", -1, 1) + Piece("b", -1, 1) + Piece("c", -1, 1) + Piece("<unk>", 0, 2));
  EXPECT_THAT(folder.Read().status().message(), HasSubstr("first three pieces"));
  copy(Piece("<unk>", 0, 2));
  EXPECT_THAT(folder.Read().status().message(), HasSubstr("first three pieces"));
}

TEST(Charsmap, HostileRulesAreRefusedOrHarmless) {
  const auto little = [](uint32_t value) {
    std::string out;
    for (int i = 0; i < 4; ++i) out.push_back(static_cast<char>(value >> (8 * i)));
    return out;
  };
  EXPECT_TRUE(Charsmap::Make("").ok());
  for (const std::string& wrong :
       {std::string("abc"), little(0), little(8) + little(0), little(3) + "abc", little(4) + little(0),
        little(4) + little(0) + "no end", little(4) + little(0) + std::string("\xFF\0", 2),
        little(4) + little(0) + std::string(257, 'x') + '\0'}) {
    EXPECT_EQ(Charsmap::Make(wrong).status().code(), StatusCode::kInvalidArgument) << ::testing::PrintToString(wrong);
  }
  // Units that point outside the array, in a circle, to a value that is not text, or to half a character.
  for (const uint32_t unit : {0xFFFFFFFFu, 0x00000161u, 0x00000561u, 0x7FFFFD61u, 0x80000000u}) {
    std::string bytes = little(4 * 256);
    for (int i = 0; i < 256; ++i) bytes += little(unit ^ static_cast<uint32_t>(i) ^ 0x61);
    bytes += "\u00e9" + std::string(1, '\0');
    const Result<Charsmap> map = Charsmap::Make(bytes);
    ASSERT_TRUE(map.ok());
    const std::string text = "ab\u00e9\U0001F468" + std::string(10000, 'a');
    for (const std::string& out : {map->Apply(text), map->ApplyToGraphemes(text)})
      EXPECT_LE(out.size(), 4 * text.size());
  }
}

}  // namespace
}  // namespace ringside
