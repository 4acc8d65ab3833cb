// A fingerprint changes with everything that may change a row or a token.
#include "engine/model/weights/model_fingerprint.h"

#include <gtest/gtest.h>

#include <functional>
#include <set>

#include "engine/text/pipeline/patterns.h"

namespace ringside {
namespace {

TokenizerData SmallTokenizer() {
  TokenizerData data;
  data.tokens = {"a", "b", "ab"};
  data.types = {TokenizerData::TokenType::kNormal, TokenizerData::TokenType::kNormal,
                TokenizerData::TokenType::kNormal};
  data.merges = {{"a", "b"}};
  data.pre_tokenizer = {Isolate("x")};
  return data;
}

TEST(ModelFingerprint, EveryFieldCounts) {
  const std::array<uint8_t, 16> weights{1, 2, 3};
  const auto of = [&](const std::function<void(TokenizerData&)>& change) {
    TokenizerData data = SmallTokenizer();
    change(data);
    return FingerprintOf(weights, data, "template", DType::kF32, DType::kF32);
  };
  const std::vector<std::function<void(TokenizerData&)>> changes = {
      [](TokenizerData&) {},
      [](TokenizerData& d) { d.kind = TokenizerData::Kind::kSentencePieceBpe; },
      [](TokenizerData& d) { d.tokens[2] = "ba"; },
      [](TokenizerData& d) {
        d.tokens = {"a", "ba", "b"};
      },  // the same bytes, partitioned differently
      [](TokenizerData& d) { d.types[1] = TokenizerData::TokenType::kControl; },
      [](TokenizerData& d) {
        d.scores = {0, 0, 1};
      },
      [](TokenizerData& d) {
        d.merges[0] = {"b", "a"};
      },
      [](TokenizerData& d) { d.merges.clear(); },
      [](TokenizerData& d) { d.pre_tokenizer.push_back(Isolate("y")); },
      [](TokenizerData& d) { d.normaliser = {{.kind = NormaliserStep::Kind::kNfc}}; },
      [](TokenizerData& d) { d.ignore_merges = true; },
      [](TokenizerData& d) { d.pre_tokenizer[0].invert = true; },
      [](TokenizerData& d) { d.kind = TokenizerData::Kind::kUnigram; },
      [](TokenizerData& d) { d.charsmap = "rules"; },
      [](TokenizerData& d) { d.white_space.trim_front = true; },
      [](TokenizerData& d) { d.white_space.trim_back = true; },
      [](TokenizerData& d) { d.white_space.collapse = true; },
      [](TokenizerData& d) { d.white_space.prefix = true; },
      [](TokenizerData& d) { d.fuse_unknown = false; },
      [](TokenizerData& d) { d.strips_leading_space = true; },
      [](TokenizerData& d) { d.dialect = TokenizerData::Dialect::kTokenizers; },
      [](TokenizerData& d) { d.added = {{.id = 1, .strip_left = true}}; },
      [](TokenizerData& d) { d.added = {{.id = 1, .single_word = true}}; },
      [](TokenizerData& d) { d.text_begin = 0; },
      [](TokenizerData& d) { d.bos = 0; },
      [](TokenizerData& d) { d.eos = 0; },
      [](TokenizerData& d) { d.unknown = 0; },
      [](TokenizerData& d) { d.end_of_turn = {0}; },
  };
  std::set<Fingerprint> seen;
  for (size_t i = 0; i < changes.size(); ++i) EXPECT_TRUE(seen.insert(of(changes[i])).second) << "change " << i;
  EXPECT_EQ(of(changes[0]), FingerprintOf(weights, SmallTokenizer(), "template", DType::kF32, DType::kF32));
  EXPECT_TRUE(seen.insert(FingerprintOf(weights, SmallTokenizer(), "Template", DType::kF32, DType::kF32)).second);
  for (const DType weight_type : {DType::kBF16, DType::kI8, DType::kF8E4M3}) {
    EXPECT_TRUE(seen.insert(FingerprintOf(weights, SmallTokenizer(), "template", DType::kBF16, weight_type)).second);
  }
  for (size_t byte = 0; byte < weights.size(); ++byte) {
    std::array<uint8_t, 16> other = weights;
    other[byte] ^= 0x80;
    EXPECT_TRUE(seen.insert(FingerprintOf(other, SmallTokenizer(), "template", DType::kF32, DType::kF32)).second)
        << "byte " << byte;
  }
}

}  // namespace
}  // namespace ringside
