#include "engine/grammar/schema/scalar_forms.h"

#include "engine/grammar/regex.h"
#include "engine/grammar/schema/number_range.h"
#include "engine/grammar/schema/schema_keywords.h"

namespace ringside {

template <class Make>
Result<ExpressionId> ScalarForms::Once(const std::string& key, const Make& make) {
  if (const auto found = made_.find(key); found != made_.end()) return found->second;
  ASSIGN_OR_RETURN(const ExpressionId id, make());
  if (budget_.Hold(static_cast<int64_t>(128 + key.size()))) made_.emplace(key, id);
  return id;
}

Result<ExpressionId> ScalarForms::Number(const SchemaValue& schema, const std::string& path, bool integers) {
  NumberRange range{.integers = integers};
  const auto read = [&](const char* keyword, std::optional<NumberBound>* bound, bool excluded) -> Status {
    const SchemaValue* value = schema.Find(keyword);
    if (value == nullptr) return Status::Ok();
    const std::string at = path + "." + keyword;
    if (!value->is_number()) return SchemaError(at, "a number is expected.");
    const auto decimal = Decimal::Parse(value->text());
    if (!decimal.ok()) return SchemaError(at, decimal.status().message());
    if (*bound) return SchemaError(at, "it conflicts with another bound on the same side.");
    *bound = NumberBound{*decimal, excluded};
    return Status::Ok();
  };
  RETURN_IF_ERROR(read("minimum", &range.low, false));
  RETURN_IF_ERROR(read("exclusiveMinimum", &range.low, true));
  RETURN_IF_ERROR(read("maximum", &range.high, false));
  RETURN_IF_ERROR(read("exclusiveMaximum", &range.high, true));
  if (!range.low && !range.high) return integers ? json_.Integer() : json_.Number();
  std::string key = integers ? "i" : "n";
  for (const auto* bound : {&range.low, &range.high}) {
    if (*bound) key += ((*bound)->excluded ? ">" : "=") + (*bound)->at.text();
    key += ',';
  }
  return Once(key, [&]() -> Result<ExpressionId> {
    const std::string at = path + (range.high            ? range.high->excluded ? ".exclusiveMaximum" : ".maximum"
                                   : range.low->excluded ? ".exclusiveMinimum"
                                                         : ".minimum");
    Result<ByteAutomaton> numbers = NumbersIn(range, budget_);
    if (!budget_.ok()) return SchemaError(at, budget_.status());
    if (!numbers.ok()) return SchemaError(path, numbers.status().message());
    if (numbers->empty()) return SchemaError(path, "no number is within its bounds.");
    return source_.Automaton(std::move(*numbers), at);
  });
}

Result<std::vector<ScalarForms::Constraint>> ScalarForms::Constraints(const SchemaValue& schema,
                                                                      const std::string& path) {
  const SchemaValue *pattern = schema.Find("pattern"), *format = schema.Find("format");
  std::vector<Constraint> constraints;
  if (pattern != nullptr) {
    if (!pattern->is_string()) return SchemaError(path + ".pattern", "a regular expression is expected.");
    constraints.push_back({path + ".pattern", pattern->text()});
  }
  if (format != nullptr) {
    const auto known = format->is_string() ? PatternOfFormat(format->text()) : std::nullopt;
    if (!known) {
      return InvalidArgument(
          "Invalid schema: '" + path + ".format': supported formats are: " + SupportedFormats() + ".", path + ".format",
          "unsupported_value");
    }
    constraints.push_back({path + ".format", std::string(*known)});
  }
  return constraints;
}

Result<ExpressionId> ScalarForms::String(const SchemaValue& schema, const std::string& path) {
  ASSIGN_OR_RETURN(const std::optional<uint32_t> least, ReadCount(schema, path, "minLength"));
  ASSIGN_OR_RETURN(const std::optional<uint32_t> most, ReadCount(schema, path, "maxLength"));
  if (least && most && *least > *most) return SchemaError(path, "minLength is above maxLength.");
  ASSIGN_OR_RETURN(const std::vector<Constraint> constraints, Constraints(schema, path));
  const bool counted = least || most;
  if (constraints.empty() && !counted) return json_.AnyString();
  std::string key = "s" + std::to_string(least.value_or(0)) + ',' + std::to_string(most.value_or(kUnbounded));
  for (const Constraint& constraint : constraints) {
    key += ',' + std::to_string(constraint.pattern.size()) + ':' + constraint.pattern;
  }
  return Once(key, [&] { return Inside(constraints, least, most, path); });
}

Result<ExpressionId> ScalarForms::Inside(const std::vector<Constraint>& constraints, std::optional<uint32_t> least,
                                         std::optional<uint32_t> most, const std::string& path) {
  const bool counted = least || most;
  const std::string at = path + (most ? ".maxLength" : ".minLength");
  ExpressionId inside = 0;
  if (constraints.empty()) {
    inside = source_.Repeat(AnyJsonCharacter(&source_), least.value_or(0), most.value_or(kUnbounded));
    source_.Name(inside, at);
  } else if (constraints.size() == 1 && !counted) {
    ASSIGN_OR_RETURN(inside, Pattern(constraints.front()));
    source_.Name(inside, constraints.front().path);
  } else {
    ASSIGN_OR_RETURN(ByteAutomaton all, All(constraints));
    if (counted) {
      Result<ByteAutomaton> some = Counted(all, least.value_or(0), most.value_or(kUnbounded));
      if (!some.ok()) return SchemaError(at, some.status());
      all = std::move(*some);
    }
    if (all.empty()) return SchemaError(path, "no string satisfies all of its keywords.");
    inside = source_.Automaton(std::move(all), counted ? at : constraints.back().path);
  }
  return source_.Sequence({source_.Bytes("\""), inside, source_.Bytes("\"")});
}

Result<ExpressionId> ScalarForms::Pattern(const Constraint& constraint) {
  const auto write = [&](const CodePointSet& set) { return JsonCharacter(set, &source_); };
  const auto inside = ReadRegex(constraint.pattern, &source_, {.characters = write, .search = true});
  if (!inside.ok()) return SchemaError(constraint.path, inside.status());
  return inside;
}

Result<ByteAutomaton> ScalarForms::All(const std::vector<Constraint>& constraints) {
  std::optional<ByteAutomaton> all;
  for (const Constraint& constraint : constraints) {
    ASSIGN_OR_RETURN(const ExpressionId inside, Pattern(constraint));
    Result<ByteAutomaton> one = ByteAutomaton::Of(source_, inside);
    if (one.ok() && all) one = ByteAutomaton::And(*all, *one, budget_);
    if (!one.ok()) return SchemaError(constraint.path, one.status());
    all = std::move(*one);
  }
  return *std::move(all);
}

Result<ByteAutomaton> ScalarForms::Counted(const ByteAutomaton& inside, uint32_t least, uint32_t most) {
  if (!character_) {
    ASSIGN_OR_RETURN(character_, ByteAutomaton::Of(source_, JsonCharacter(CodePointSet::All(), &source_)));
  }
  return ByteAutomaton::Counted(inside, *character_, least, most, budget_);
}

}  // namespace ringside
