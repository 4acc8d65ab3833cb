// The tokenizer of a network with dummy weights.
#include <fmt/format.h>
#include <utf8proc.h>

#include "engine/text/tokenizer.h"
#include "engine/text/unicode.h"

namespace ringside {
namespace {

std::string Spelled(uint8_t byte) {
  utf8proc_uint8_t bytes[4];
  const auto count = utf8proc_encode_char(static_cast<utf8proc_int32_t>(ByteLevelCharacter(byte)), bytes);
  return {reinterpret_cast<const char*>(bytes), static_cast<size_t>(count)};
}

}  // namespace

TokenizerData DummyTokenizer(int64_t vocab) {
  TokenizerData data;
  data.pre_tokenizer = {{.kind = PreTokenizerStep::Kind::kByteLevel}};
  const auto count = static_cast<size_t>(vocab);
  for (size_t byte = 0; byte < 256; ++byte) data.tokens.push_back(Spelled(static_cast<uint8_t>(byte)));
  data.tokens.emplace_back("<|end|>");
  while (data.tokens.size() < count) data.tokens.push_back(fmt::format("{}w{}", Spelled(' '), data.tokens.size()));
  data.tokens.resize(count);
  data.types.assign(count, TokenizerData::TokenType::kNormal);
  if (count <= 256) return data;
  data.types[256] = TokenizerData::TokenType::kControl;
  data.eos = 256;
  data.end_of_turn = {256};
  return data;
}

}  // namespace ringside
