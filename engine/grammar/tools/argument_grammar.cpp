#include "engine/grammar/tools/argument_grammar.h"

#include <algorithm>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "engine/grammar/byte_automaton.h"
#include "engine/grammar/regex.h"
#include "engine/grammar/schema/json_schema.h"
#include "engine/grammar/schema/json_text.h"
#include "engine/grammar/schema/schema_disjoint.h"
#include "engine/grammar/schema/schema_keywords.h"
#include "engine/grammar/tools/parameter_types.h"

namespace ringside {
namespace {

using Form = ToolSyntax::Arguments::Form;
constexpr std::string_view kGemmaQuote = "<|\"|>";
constexpr int kMaxNesting = 16;  // maximum nesting of schemas that are expanded member by member

std::string WithoutNewlines(std::string_view text) {
  std::string out(text);
  std::erase(out, '\n');
  return out;
}

/// Builds the grammar of one call's arguments and values.
class ArgumentWriter {
 public:
  ArgumentWriter(const ToolSyntax& syntax, const SchemaValue* root, GrammarSource* source)
      : markup_(syntax.arguments),
        root_(root),
        source_(*source),
        end_of_text_(markup_.form == Form::kTagged ? WithoutNewlines(markup_.after_value) : kGemmaQuote),
        json_(source) {}

  Result<ExpressionId> Arguments(const std::string& param) {
    if (root_ == nullptr) return AnyArguments();
    if (markup_.form != Form::kTagged) return Object(*root_, param, /*arguments=*/true, kMaxNesting);
    ASSIGN_OR_RETURN(const Members members, ReadMembers(*root_, param));
    std::vector<ExpressionId> parts;
    for (const Member& member : members.declared) {
      ASSIGN_OR_RETURN(const ExpressionId value, TaggedValue(*member.schema, member.path));
      const ExpressionId part = Tagged(source_.Bytes(*member.name), value, AcceptsRawText(*root_, *member.schema));
      parts.push_back(member.required ? part : source_.Optional(part));
    }
    if (members.others != nullptr) {
      ASSIGN_OR_RETURN(const ExpressionId key, OtherKey(members));
      ASSIGN_OR_RETURN(const ExpressionId value, TextValue({}, param));
      parts.push_back(source_.Repeat(Tagged(key, value), 0, kUnbounded));
    }
    return source_.Sequence(std::move(parts));
  }

 private:
  struct Member {
    const std::string* name;
    const SchemaValue* schema;
    std::string path;
    bool required;
  };
  struct Members {
    std::vector<Member> declared;
    const SchemaValue* others = nullptr;  // schema of undeclared members; null = none allowed
  };

  Result<Members> ReadMembers(const SchemaValue& schema, const std::string& path) {
    const SchemaValue *properties = schema.Find("properties"), *required = schema.Find("required"),
                      *others = schema.Find("additionalProperties");
    std::set<std::string> needed;
    if (required != nullptr) {
      for (const SchemaValue& name : required->items()) needed.insert(name.text());
    }
    Members members;
    const bool open = others != nullptr ? !others->is_bool(false) : properties == nullptr;
    if (open) members.others = others != nullptr ? others : &kAnything;
    if (properties != nullptr) {
      for (const auto& [name, value] : properties->members()) {
        if (value.is_bool(false) && !needed.contains(name)) continue;
        const std::string at = path + ".properties." + name.substr(0, kMaxKeyBytes);
        RETURN_IF_ERROR(CheckName(name, at));
        members.declared.push_back({&name, &value, at, needed.contains(name)});
        needed.erase(name);
      }
    }
    for (const SchemaValue& name : required == nullptr ? kNone : required->items()) {
      if (needed.erase(name.text()) == 0) continue;
      RETURN_IF_ERROR(CheckName(name.text(), path + ".required"));
      members.declared.push_back({&name.text(), &kAnything, path, true});
    }
    return members;
  }

  Status CheckName(const std::string& name, const std::string& path) const {
    if (IsBareKey(name)) return Status::Ok();
    return SchemaError(path, "calls in the model's own syntax name parameters with 1 to " +
                                 std::to_string(kMaxKeyBytes) + " letters, digits and any of _-.$@/.");
  }

  ExpressionId Tagged(ExpressionId key, ExpressionId value, bool text = true) {
    const std::string_view before = text || markup_.before_json.empty() ? markup_.before_value : markup_.before_json;
    return source_.Sequence({AddMarkup(markup_.before_key, true, &source_), key, AddMarkup(before, true, &source_),
                             value, AddMarkup(markup_.after_value, true, &source_)});
  }

  ExpressionId BareKey() {
    CodePointSet characters = CodePointSet::Of("_-.$@/");
    for (const auto& [first, last] : {std::pair('0', '9'), std::pair('A', 'Z'), std::pair('a', 'z')}) {
      characters.Add(static_cast<uint32_t>(first), static_cast<uint32_t>(last));
    }
    return source_.Repeat(source_.Characters(std::move(characters)), 1, kMaxKeyBytes);
  }

  /// Any name that is not declared.
  Result<ExpressionId> OtherKey(const Members& members) {
    if (members.declared.empty()) return BareKey();
    std::vector<std::string> names;
    for (const Member& member : members.declared) names.push_back(*member.name);
    ASSIGN_OR_RETURN(const ByteAutomaton all, ByteAutomaton::Of(source_, BareKey()));
    ASSIGN_OR_RETURN(const ByteAutomaton known, ByteAutomaton::OfStrings(std::move(names), source_.budget()));
    ASSIGN_OR_RETURN(ByteAutomaton rest, ByteAutomaton::Without(all, known, source_.budget()));
    return source_.Automaton(std::move(rest));
  }

  Result<ExpressionId> TaggedValue(const SchemaValue& schema, const std::string& path) {
    if (AcceptsRawText(*root_, schema)) return TextValue(schema, path);
    return AddJsonSchemaOf(*root_, schema, path, &source_);
  }

  /// Raw text under the schema's keywords, up to the end marker.
  Result<ExpressionId> TextValue(const SchemaValue& given, const std::string& path) {
    const SchemaValue& schema = Resolved(given);
    std::vector<std::string> listed;
    const SchemaValue *one = schema.Find("const"), *values = schema.Find("enum");
    const auto add = [&](const SchemaValue& value) {
      listed.push_back(value.is_string() ? value.text() : JsonOf(value));
    };
    if (one != nullptr) add(*one);
    if (one == nullptr && values != nullptr) std::ranges::for_each(values->items(), add);
    std::optional<ByteAutomaton> all;
    const auto cut = [&](Result<ByteAutomaton> some, const std::string& keyword) -> Status {
      if (some.ok() && all) some = ByteAutomaton::And(*all, *some, source_.budget());
      if (!some.ok()) return SchemaError(path + keyword, some.status());
      all = std::move(*some);
      return Status::Ok();
    };
    if (!listed.empty()) RETURN_IF_ERROR(cut(ByteAutomaton::OfStrings(std::move(listed), source_.budget()), ""));
    ASSIGN_OR_RETURN(const auto least, ReadCount(schema, path, "minLength"));
    ASSIGN_OR_RETURN(const auto most, ReadCount(schema, path, "maxLength"));
    if (least || most) {
      const ExpressionId any = source_.Characters(CodePointSet::All());
      const ExpressionId counted = source_.Repeat(any, least.value_or(0), most.value_or(kUnbounded));
      RETURN_IF_ERROR(cut(ByteAutomaton::Of(source_, counted), most ? ".maxLength" : ".minLength"));
    }
    for (const char* keyword : {"pattern", "format"}) {
      const SchemaValue* value = schema.Find(keyword);
      if (value == nullptr) continue;
      const auto known =
          *keyword == 'f' ? PatternOfFormat(value->text()) : std::optional(std::string_view(value->text()));
      if (!known) continue;
      const Result<ExpressionId> matches = ReadRegex(*known, &source_, {.characters = nullptr, .search = true});
      if (!matches.ok()) return SchemaError(path + "." + keyword, matches.status());
      RETURN_IF_ERROR(cut(ByteAutomaton::Of(source_, *matches), std::string(".") + keyword));
    }
    return Ended(std::move(all), path);
  }

  /// The texts that do not contain `end_of_text_`.
  Result<ExpressionId> Ended(std::optional<ByteAutomaton> texts, const std::string& path) {
    if (!texts && any_text_) return *any_text_;
    const ExpressionId any = source_.Repeat(source_.Characters(CodePointSet::All()), 0, kUnbounded);
    if (!ending_) {
      const ExpressionId ending = source_.Sequence({any, source_.Bytes(end_of_text_), any});
      ASSIGN_OR_RETURN(ending_, ByteAutomaton::Of(source_, ending));
    }
    const bool free = !texts;
    if (free) {
      ASSIGN_OR_RETURN(texts, ByteAutomaton::Of(source_, any));
    }
    ASSIGN_OR_RETURN(ByteAutomaton rest, ByteAutomaton::Without(*texts, *ending_, source_.budget()));
    if (rest.empty()) return SchemaError(path, "no text fits all of its keywords.");
    const ExpressionId text = source_.Automaton(std::move(rest), path);
    if (free) any_text_ = text;
    return text;
  }

  const SchemaValue& Resolved(const SchemaValue& schema) const {
    const SchemaValue* at = &schema;
    for (int i = 0; i < kMaxNesting && root_ != nullptr; ++i) {
      const SchemaValue* reference = at->Find("$ref");
      const SchemaValue* target = reference == nullptr ? nullptr : ResolveReference(*root_, reference->text());
      if (target == nullptr) break;
      at = target;
    }
    return *at;
  }

  // Python and Gemma.

  bool python() const { return markup_.form == Form::kPython; }

  ExpressionId List(const char* open, std::vector<ExpressionId> parts, const char* close) {
    std::vector<ExpressionId> all = {source_.Bytes(open)};
    all.insert(all.end(), parts.begin(), parts.end());
    all.push_back(source_.Bytes(close));
    return source_.Sequence(std::move(all));
  }

  /// Members in order, optional ones possibly left out, separated by commas.
  ExpressionId Joined(const std::vector<std::pair<ExpressionId, bool>>& parts, std::optional<ExpressionId> more) {
    ExpressionId rest = source_.Empty();  // continuation after a member
    if (more) rest = source_.Repeat(source_.Sequence({json_.Comma(), *more}), 0, kUnbounded);
    ExpressionId first = more ? source_.Optional(source_.Sequence({*more, rest})) : source_.Empty();
    for (size_t i = parts.size(); i-- > 0;) {
      const auto [part, required] = parts[i];
      const RuleId begin = source_.AddRule("arguments"), on = source_.AddRule("arguments");
      const ExpressionId begun = source_.Sequence({part, rest});
      source_.Define(begin, required ? begun : source_.Choice({begun, first}));
      const ExpressionId next = source_.Sequence({json_.Comma(), part});
      source_.Define(on, source_.Sequence({required ? next : source_.Optional(next), rest}));
      first = source_.Rule(begin);
      rest = source_.Rule(on);
    }
    return first;
  }

  Result<ExpressionId> Object(const SchemaValue& schema, const std::string& path, bool arguments, int depth) {
    const char* const open = arguments && python() ? "(" : "{";
    const char* const close = arguments && python() ? ")" : "}";
    const ExpressionId colon = arguments && python() ? source_.Bytes("=") : json_.Colon();
    ASSIGN_OR_RETURN(const Members members, ReadMembers(schema, path));
    std::vector<std::pair<ExpressionId, bool>> parts;
    for (const Member& member : members.declared) {
      ASSIGN_OR_RETURN(const ExpressionId value, Value(*member.schema, member.path, depth - 1));
      parts.emplace_back(source_.Sequence({source_.Bytes(*member.name), colon, value}), member.required);
    }
    std::optional<ExpressionId> more;
    if (members.others != nullptr) {
      ASSIGN_OR_RETURN(const ExpressionId key, OtherKey(members));
      ASSIGN_OR_RETURN(const ExpressionId value, Value(*members.others, path + ".additionalProperties", depth - 1));
      more = source_.Sequence({key, colon, value});
    }
    return List(open, {Joined(parts, more)}, close);
  }

  Result<ExpressionId> Value(const SchemaValue& given, const std::string& path, int depth) {
    const SchemaValue& schema = Resolved(given);
    const SchemaValue* type = schema.Find("type");
    const std::string name = type != nullptr && type->is_string() ? type->text() : "";
    if (name == "boolean") return source_.Choice({source_.Bytes(Word(true)), source_.Bytes(Word(false))});
    const bool anything = !schema.is_object() || schema.members().empty();
    if (!anything && (python() || name == "integer" || name == "number")) {
      // Python syntax uses JSON here; ArgumentReader also accepts Python's keywords.
      return AddJsonSchemaOf(*root_, schema, path, &source_);
    }
    if (depth > 0 && name == "object") return Object(schema, path, /*arguments=*/false, depth);
    if (depth > 0 && name == "array") return Array(schema, path, depth);
    const bool listed = schema.Find("enum") != nullptr || schema.Find("const") != nullptr;
    if (name != "string" && !(listed && AcceptsRawText(*root_, schema))) return AnyValue();
    ASSIGN_OR_RETURN(const ExpressionId text, TextValue(schema, path));
    return List(kGemmaQuote.data(), {text}, kGemmaQuote.data());
  }

  Result<ExpressionId> Array(const SchemaValue& schema, const std::string& path, int depth) {
    ASSIGN_OR_RETURN(const auto least, ReadCount(schema, path, "minItems"));
    ASSIGN_OR_RETURN(const auto most, ReadCount(schema, path, "maxItems"));
    const SchemaValue* items = schema.Find("items");
    ASSIGN_OR_RETURN(const ExpressionId item, Value(items == nullptr ? kAnything : *items, path + ".items", depth - 1));
    const uint32_t fewest = least.value_or(0);
    const uint32_t more = most ? std::max<uint32_t>(*most, 1) - 1 : kUnbounded;
    ExpressionId inside = source_.Sequence(
        {item, source_.Repeat(source_.Sequence({json_.Comma(), item}), std::max(fewest, 1U) - 1, more)});
    if (most && *most == 0) inside = source_.Empty();
    if (fewest == 0) inside = source_.Optional(inside);
    return List("[", {inside}, "]");
  }

  const char* Word(bool value) const {
    if (python()) return value ? "True" : "False";
    return value ? "true" : "false";
  }

  /// Any value, as a rule.
  Result<ExpressionId> AnyValue() {
    if (any_value_) return *any_value_;
    const RuleId rule = source_.AddRule("value");
    const ExpressionId value = source_.Rule(rule);
    any_value_ = value;
    ExpressionId text = json_.AnyString(), key = text;
    if (!python()) {
      ASSIGN_OR_RETURN(text, TextValue({}, ""));
      text = List(kGemmaQuote.data(), {text}, kGemmaQuote.data());
      key = BareKey();
    }
    const ExpressionId member = source_.Sequence({key, json_.Colon(), value});
    source_.Define(rule, source_.Choice({text, json_.Number(), source_.Bytes(Word(true)), source_.Bytes(Word(false)),
                                         source_.Bytes(python() ? "None" : "null"), List("[", {Joined({}, value)}, "]"),
                                         List("{", {Joined({}, member)}, "}")}));
    return value;
  }

  Result<ExpressionId> AnyArguments() {
    if (markup_.form == Form::kTagged) {
      ASSIGN_OR_RETURN(const ExpressionId value, TextValue({}, ""));
      std::vector<ExpressionId> forms = {Tagged(BareKey(), value)};
      if (!markup_.before_json.empty()) forms.push_back(Tagged(BareKey(), json_.AnyValue(), /*text=*/false));
      return source_.Repeat(source_.Choice(std::move(forms)), 0, kUnbounded);
    }
    ASSIGN_OR_RETURN(const ExpressionId value, AnyValue());
    const ExpressionId colon = python() ? source_.Bytes("=") : json_.Colon();
    const ExpressionId member = source_.Sequence({BareKey(), colon, value});
    return List(python() ? "(" : "{", {Joined({}, member)}, python() ? ")" : "}");
  }

  static inline const SchemaValue kAnything = {};
  static inline const std::vector<SchemaValue> kNone = {};

  const ToolSyntax::Arguments& markup_;
  const SchemaValue* root_;
  GrammarSource& source_;
  const std::string end_of_text_;
  JsonRules json_;
  std::optional<ByteAutomaton> ending_;
  std::optional<ExpressionId> any_text_, any_value_;
};

}  // namespace

ExpressionId AddMarkup(std::string_view pattern, bool loose, GrammarSource* source) {
  constexpr std::string_view kSpecial = "#%\n";
  std::vector<ExpressionId> parts;
  while (!pattern.empty()) {
    const size_t plain = std::min(pattern.find_first_of(loose ? kSpecial : kSpecial.substr(0, 2)), pattern.size());
    if (plain > 0) parts.push_back(source->Bytes(std::string(pattern.substr(0, plain))));
    pattern.remove_prefix(plain);
    if (pattern.empty()) break;
    const char c = pattern.front();
    const size_t run = std::min(pattern.find_first_not_of(c), pattern.size());
    pattern.remove_prefix(run);
    if (c == '\n') parts.push_back(source->Repeat(source->Bytes("\n"), 0, static_cast<uint32_t>(run)));
    if (c == '%') parts.push_back(source->Repeat(source->Characters({{'0', '9'}}), 1, kMaxNumberDigits));
    if (c != '#') continue;
    const auto letters = static_cast<uint32_t>(run);
    parts.push_back(source->Repeat(source->Characters({{'0', '9'}, {'A', 'Z'}, {'a', 'z'}}), letters, letters));
  }
  return source->Sequence(std::move(parts));
}

Result<ExpressionId> AddArgumentsIn(const ToolSyntax& syntax, const SchemaValue* schema, const std::string& param,
                                    GrammarSource* source) {
  return ArgumentWriter(syntax, schema, source).Arguments(param);
}

}  // namespace ringside
