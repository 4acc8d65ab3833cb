// Answer formats from clients: JSON Schema, regular expressions, GBNF. Accepted formats are followed: each mask is
// exact, and the choices in the input's last part produce a text that matches so far.
#include "base/limits.h"
#include "engine/grammar/grammar_cache.h"
#include "tests/engine/grammar/byte_vocabulary.h"
#include "tests/fuzz/fuzz_target.h"

namespace ringside {

std::vector<std::string> Seeds() {
  const std::pair<const char*, const char*> seeds[] = {
      {"s",
       R"({"type":"object","properties":{"a":{"type":"string","pattern":"^[a-z]{1,3}$","maxLength":2},"b":{"enum":[1,"x",null]},
          "c":{"type":"array","items":{"$ref":"#/$defs/n"},"minItems":1,"maxItems":3}},"required":["a"],
          "additionalProperties":{"type":"number","exclusiveMinimum":-1.5,"maximum":20},
          "$defs":{"n":{"anyOf":[{"type":"null"},{"$ref":"#"}]}}})"},
      {"s",
       R"({"oneOf":[{"type":"object","properties":{"k":{"const":"a"}},"required":["k"]},{"type":"string","format":"date-time"}]})"},
      {"s", R"({"type":["array","integer"],"prefixItems":[{"type":"boolean"},true],"minimum":-12,"maximum":1e3})"},
      {"r", "^(a|[^b-d\\s]{2,5}|\\u00e9+?)\\.(?:x|\\d*)$"},
      {"g", "# numbers\nroot ::= item (\",\" ws item)*\nitem ::= [0-9]{1,3} | \"(\" root \")\"\nws ::= \" \"?\n"},
      {"j", ""}};
  std::vector<std::string> out;
  for (const auto& [kind, text] : seeds) out.push_back(JoinParts({kind, text, "choices: 0123456789 abcdefgh"}));
  return out;
}

}  // namespace ringside

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace ringside;
  static const ByteVocabulary tokenizer;
  const std::vector<std::string_view> parts = SplitParts(data, size, 3);
  using Kind = AnswerFormat::Kind;
  const Kind kind = parts[0] == "s"   ? Kind::kJsonSchema
                    : parts[0] == "r" ? Kind::kRegex
                    : parts[0] == "g" ? Kind::kGbnf
                                      : Kind::kJsonObject;
  GrammarCache cache(tokenizer);
  const auto grammar = cache.Get({.kind = kind, .text = std::string(parts[1]), .param = "format"});
  if (!grammar.ok()) {
    Require(grammar.status().code() == StatusCode::kInvalidArgument, grammar.status().ToString());
    Require(grammar.status().param().starts_with("format"), "the error names the format");
    return 0;
  }
  GrammarMatcher matcher(*grammar);
  Choices choices(parts[2]);
  std::vector<uint32_t> mask(static_cast<size_t>(tokenizer.vocab_size() + 31) / 32);
  for (int step = 0; step < 64 && !choices.done(); ++step) {
    Require(matcher.may_end() || matcher.may_continue(), "every state leads to an end");
    if (!matcher.FillMask(mask).ok()) return 0;
    std::vector<TokenId> allowed;
    for (TokenId id = 0; id < tokenizer.vocab_size(); ++id) {
      if ((mask[static_cast<size_t>(id) / 32] >> (id % 32) & 1) != 0) allowed.push_back(id);
    }
    Require(!allowed.empty() == matcher.may_continue(), "where it may go on there is a token");
    if (allowed.empty()) return 0;
    GrammarMatcher other = matcher;
    const auto any = static_cast<TokenId>(choices.Byte());
    const Status taken = other.Take(any);
    const bool in_mask = (mask[static_cast<size_t>(any) / 32] >> (any % 32) & 1) != 0;
    const bool gave_up = !taken.ok() && taken.message().find("begins") == std::string::npos;
    Require(gave_up || taken.ok() == in_mask, "a mask says what may be taken");
    if (!matcher.Take(allowed[choices.Below(allowed.size())]).ok()) return 0;
  }
  return 0;
}
