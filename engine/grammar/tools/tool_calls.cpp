#include "engine/grammar/tools/tool_calls.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "engine/grammar/byte_automaton.h"
#include "engine/grammar/regex.h"
#include "engine/grammar/schema/json_schema.h"
#include "engine/grammar/schema/schema_value.h"
#include "engine/grammar/tools/argument_grammar.h"

namespace ringside {
namespace {

/// Any text in which no call begins.
Result<ExpressionId> TextWithoutCalls(const ToolSyntax& syntax, GrammarSource* source) {
  const ExpressionId any = source->Repeat(source->Characters(CodePointSet::All()), 0, kUnbounded);
  ExpressionId marker = source->Bytes(std::string(syntax.marker()));
  if (!syntax.reserved && syntax.before_arguments.empty()) {  // the marker alone is common text: [f(
    ASSIGN_OR_RETURN(const ExpressionId name, ReadRegex("[A-Za-z0-9_.-]+\\(", source, {}));
    marker = source->Sequence({marker, name});
  }
  const ExpressionId with = source->Sequence({syntax.reserved ? any : source->Empty(), marker, any});
  ASSIGN_OR_RETURN(const ByteAutomaton all, ByteAutomaton::Of(*source, any));
  ASSIGN_OR_RETURN(const ByteAutomaton calling, ByteAutomaton::Of(*source, with));
  ASSIGN_OR_RETURN(ByteAutomaton text, ByteAutomaton::Without(all, calling, source->budget()));
  return source->Automaton(std::move(text));
}

/// Arguments are an object even if the schema would allow other values.
bool IsObjectSchema(const SchemaValue& schema) {
  const SchemaValue* type = schema.Find("type");
  return type != nullptr && type->is_string() && type->text() == "object";
}

/// Arguments without a schema.
Result<ExpressionId> AddAnyArguments(const ToolSyntax& syntax, GrammarSource* source) {
  return syntax.has_json() ? AddAnyJsonObject(source) : AddArgumentsIn(syntax, nullptr, "", source);
}

/// Arguments under an object schema. All keywords are checked as for JSON, in any syntax.
Result<ExpressionId> AddSchemaArguments(const ToolSyntax& syntax, const SchemaValue& schema, const std::string& param,
                                        GrammarSource* source) {
  const GrammarSource::Size before = source->size();
  Result<ExpressionId> json = AddJsonSchema(schema, param, source);
  if (!json.ok() || syntax.has_json()) return json;
  source->Truncate(before);
  return AddArgumentsIn(syntax, &schema, param, source);
}

/// An empty argument list.
ExpressionId AddNoArguments(const ToolSyntax& syntax, GrammarSource* source) {
  using Form = ToolSyntax::Arguments::Form;
  if (syntax.arguments.form == Form::kTagged) return source->Empty();
  return source->Bytes(syntax.arguments.form == Form::kPython ? "()" : "{}");
}

/// A function without a schema has no parameters.
Result<ExpressionId> AddArguments(const SchemaValue* schema, bool strict, const ToolCallRules& rules,
                                  const std::string& param, GrammarSource* source) {
  const ToolSyntax& syntax = SyntaxOf(rules.syntax);
  if (schema == nullptr) return AddNoArguments(syntax, source);
  if (rules.any_arguments && !strict) return AddAnyArguments(syntax, source);
  if (IsObjectSchema(*schema)) {
    const GrammarSource::Size before = source->size();
    Result<ExpressionId> arguments = AddSchemaArguments(syntax, *schema, param, source);
    if (arguments.ok() || strict || !source->budget().ok()) return arguments;
    source->Truncate(before);
  } else if (strict) {
    return InvalidArgument("Invalid schema: '" + param + "': the arguments of a tool are of type 'object'.", param,
                           "invalid_value");
  }
  return AddAnyArguments(syntax, source);
}

/// A call from its name on.
Result<ExpressionId> AddCall(const SchemaValue& tool, bool strict, const ToolCallRules& rules, const std::string& param,
                             GrammarSource* source) {
  const SchemaValue* function = tool.Find("function");
  const SchemaValue* name = function == nullptr ? nullptr : function->Find("name");
  if (name == nullptr || !IsCallableName(name->text())) return InvalidArgument("A tool must have a valid name.", param);
  ASSIGN_OR_RETURN(const ExpressionId arguments,
                   AddArguments(function->Find("parameters"), strict, rules, param, source));
  const ToolSyntax& syntax = SyntaxOf(rules.syntax);
  return source->Sequence({source->Bytes(name->text()), AddMarkup(syntax.before_arguments, syntax.loose(), source),
                           arguments, AddMarkup(syntax.after_arguments, syntax.loose(), source)});
}

/// Any one of the calls, as a rule.
Result<ExpressionId> AddAnyCall(const ToolCallRules& rules, GrammarSource* source) {
  std::vector<std::string> missing = rules.names;
  std::vector<ExpressionId> calls;
  std::string_view rest = rules.tools;
  for (size_t i = 0; !rest.empty(); ++i) {
    const std::string_view line = rest.substr(0, rest.find('\n'));
    rest.remove_prefix(std::min(line.size() + 1, rest.size()));
    const std::string place = i < rules.places.size() ? rules.places[i] : "tools[" + std::to_string(i) + "]";
    const std::string param = place + rules.schema_param;
    const Result<SchemaValue> tool = SchemaValue::Parse(line, source->budget());
    if (!tool.ok()) return Status(tool.status().code(), tool.status().message(), param, "invalid_value");
    if (!rules.names.empty()) {
      const SchemaValue* function = tool->Find("function");
      const SchemaValue* name = function == nullptr ? nullptr : function->Find("name");
      if (name == nullptr || std::ranges::count(rules.names, name->text()) == 0) continue;
      std::erase(missing, name->text());
    }
    const bool strict = i < rules.strict.size() && rules.strict[i];
    ASSIGN_OR_RETURN(const ExpressionId call, AddCall(*tool, strict, rules, param, source));
    calls.push_back(call);
  }
  if (!missing.empty()) {
    return InvalidArgument(
        "There is no tool '" + missing.front().substr(0, kMaxCallableNameBytes) + "' among the tools.", "tool_choice",
        "invalid_value");
  }
  if (!source->budget().ok()) return source->budget().status();
  const RuleId rule = source->AddRule("call");
  source->Define(rule, source->Choice(std::move(calls)));
  return source->Rule(rule);
}

}  // namespace

bool IsToolName(std::string_view name) {
  return !name.empty() && name.size() <= kMaxToolNameBytes && std::ranges::all_of(name, [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '-';
  });
}

bool IsCallableName(std::string_view name) {
  const size_t dot = name.find('.');
  if (dot == std::string_view::npos) return IsToolName(name);
  return IsToolName(name.substr(0, dot)) && IsToolName(name.substr(dot + 1));
}

std::string RecipientPattern(const ToolCallRules& rules) {
  std::string names;
  GrammarBudget budget;
  for (std::string_view rest = rules.tools; rules.may_call && !rest.empty();) {
    const std::string_view line = rest.substr(0, rest.find('\n'));
    rest.remove_prefix(std::min(line.size() + 1, rest.size()));
    const Result<SchemaValue> tool = SchemaValue::Parse(line, budget);
    const SchemaValue* function = tool.ok() ? tool->Find("function") : nullptr;
    const SchemaValue* name = function == nullptr ? nullptr : function->Find("name");
    if (name == nullptr || !IsCallableName(name->text())) continue;
    if (!rules.names.empty() && std::ranges::count(rules.names, name->text()) == 0) continue;
    if (!names.empty()) names += '|';
    for (const char c : name->text()) names += c == '.' ? "\\." : std::string(1, c);
  }
  return names.empty() ? "" : "functions\\.(" + names + ")";
}

Result<ExpressionId> AddToolCalls(const ToolCallRules& rules, const ExpressionId* answer, GrammarSource* source) {
  const ToolSyntax& syntax = SyntaxOf(rules.syntax);
  ExpressionId text = 0;
  if (answer != nullptr) {
    text = *answer;
  } else if (!rules.must_call) {
    ASSIGN_OR_RETURN(text, TextWithoutCalls(syntax, source));
  }
  if (!rules.may_call) return text;
  ASSIGN_OR_RETURN(const ExpressionId call, AddAnyCall(rules, source));
  std::vector<ExpressionId> parts = {AddMarkup(syntax.opening, syntax.loose(), source), call};
  if (rules.several && syntax.several) {
    const ExpressionId more = source->Sequence({AddMarkup(syntax.next, syntax.loose(), source), call});
    parts.push_back(source->Repeat(more, 0, kUnbounded));
  }
  if (!syntax.close.empty()) parts.push_back(AddMarkup(syntax.close, syntax.loose(), source));
  const ExpressionId calls = source->Sequence(parts);
  if (rules.must_call) return calls;
  if (answer != nullptr || syntax.alone) return source->Choice({text, calls});
  return source->Sequence({text, source->Optional(calls)});
}

}  // namespace ringside
