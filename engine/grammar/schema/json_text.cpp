#include "engine/grammar/schema/json_text.h"

#include <fmt/format.h>

#include <array>

#include "base/check.h"
#include "engine/grammar/regex.h"

namespace ringside {
namespace {

// Characters with a short escape, and its letter.
constexpr std::array<std::pair<char, char>, 7> kShort = {
    {{'"', '"'}, {'\\', '\\'}, {'\b', 'b'}, {'\f', 'f'}, {'\n', 'n'}, {'\r', 'r'}, {'\t', 't'}}};

std::string Escape(uint8_t c) {
  for (const auto& [character, letter] : kShort) {
    if (c == static_cast<uint8_t>(character)) return {'\\', letter};
  }
  return fmt::format("\\u{:04x}", c);
}

bool MustEscape(uint8_t c) { return c < 0x20 || c == '"' || c == '\\'; }

// The number of digits is bounded so that every JSON parser accepts the number, and no answer is endless digits.
constexpr std::string_view kNumber = "-?(0|[1-9][0-9]{0,14})(\\.[0-9]{1,15})?([eE][+-]?[0-9]{1,2})?";
constexpr std::string_view kInteger = "0|-?[1-9][0-9]{0,17}";
constexpr std::string_view kHex = "0123456789abcdefABCDEF";

}  // namespace

std::string JsonString(std::string_view text) {
  std::string out = "\"";
  for (const char c : text) {
    const auto byte = static_cast<uint8_t>(c);
    MustEscape(byte) ? out += Escape(byte) : out += c;
  }
  return out + '"';
}

std::string JsonOf(const SchemaValue& value) {
  switch (value.kind()) {
    case SchemaValue::Kind::kNull:
      return "null";
    case SchemaValue::Kind::kBool:
      return value.boolean() ? "true" : "false";
    case SchemaValue::Kind::kNumber:
      return value.text();
    case SchemaValue::Kind::kString:
      return JsonString(value.text());
    case SchemaValue::Kind::kArray:
    case SchemaValue::Kind::kObject:
      break;
  }
  std::string out;
  for (const SchemaValue& item : value.items()) out += (out.empty() ? "" : ",") + JsonOf(item);
  for (const auto& [name, member] : value.members()) {
    out += (out.empty() ? "" : ",") + JsonString(name) + ":" + JsonOf(member);
  }
  return value.is_array() ? "[" + out + "]" : "{" + out + "}";
}

ExpressionId JsonCharacter(const CodePointSet& characters, GrammarSource* source) {
  static const CodePointSet escaped = {{0, 0x1F}, {'"', '"'}, {'\\', '\\'}};
  std::vector<ExpressionId> forms = {source->Characters(characters.Without(escaped))};
  const CodePointSet to_escape = characters.And(escaped);
  for (const CodePointRange& range : to_escape.ranges()) {
    for (uint32_t c = range.first; c <= range.last; ++c) {
      forms.push_back(source->Bytes(Escape(static_cast<uint8_t>(c))));
    }
  }
  return source->Choice(std::move(forms));
}

ExpressionId AnyJsonCharacter(GrammarSource* source) {
  const CodePointSet plain = CodePointSet::All().Without({{0, 0x1F}, {'"', '"'}, {'\\', '\\'}});
  const auto set = [&](std::string_view characters) { return source->Characters(CodePointSet::Of(characters)); };
  const ExpressionId hex = set(kHex);
  const auto hexes = [&](uint32_t count) { return source->Repeat(hex, count, count); };
  // After \u: a code unit that is a character, or a surrogate pair.
  const ExpressionId unit = source->Choice({source->Sequence({set("0123456789abcefABCEF"), hexes(3)}),
                                            source->Sequence({set("dD"), set("01234567"), hexes(2)})});
  const ExpressionId halves = source->Sequence(
      {set("dD"), set("89abAB"), hexes(2), source->Bytes("\\u"), set("dD"), set("cdefCDEF"), hexes(2)});
  const ExpressionId escape =
      source->Choice({set("\"\\/bfnrt"), source->Sequence({source->Bytes("u"), source->Choice({unit, halves})})});
  return source->Choice({source->Characters(plain), source->Sequence({source->Bytes("\\"), escape})});
}

RuleId JsonRules::Define(const char* name, ExpressionId body) {
  const RuleId rule = source_.AddRule(name);
  source_.Define(rule, body);
  return rule;
}

JsonRules::JsonRules(GrammarSource* source) : source_(*source) {
  const auto bytes = [&](const char* text) { return source_.Bytes(text); };
  const auto regex = [&](std::string_view pattern) { return ReadRegex(pattern, source, {}).value(); };
  string_ = Define(
      "string", source_.Sequence({bytes("\""), source_.Repeat(AnyJsonCharacter(source), 0, kUnbounded), bytes("\"")}));
  number_ = Define("number", regex(kNumber));
  integer_ = Define("integer", regex(kInteger));
  comma_ = Define("comma", regex(", ?"));
  colon_ = Define("colon", regex(": ?"));
  value_ = source_.AddRule("value");
  const auto list = [&](const char* open, ExpressionId item, const char* close) {
    const ExpressionId more = source_.Repeat(source_.Sequence({Comma(), item}), 0, kUnbounded);
    return source_.Sequence({bytes(open), source_.Optional(source_.Sequence({item, more})), bytes(close)});
  };
  object_ = Define("object", list("{", source_.Sequence({AnyString(), Colon(), AnyValue()}), "}"));
  const RuleId array = Define("array", list("[", AnyValue(), "]"));
  source_.Define(value_, source_.Choice({AnyObject(), source_.Rule(array), AnyString(), Number(), bytes("true"),
                                         bytes("false"), bytes("null")}));
}

}  // namespace ringside
