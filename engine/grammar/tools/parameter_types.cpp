#include "engine/grammar/tools/parameter_types.h"

#include <algorithm>
#include <set>

#include "engine/grammar/schema/schema_disjoint.h"
#include "engine/grammar/schema/schema_keywords.h"

namespace ringside {
namespace {

// Maximum number of references and nested alternatives; beyond that a value is text.
constexpr int kMaxReferences = 16;

bool AcceptsRawTextWithin(const SchemaValue& root, const SchemaValue& schema, int depth) {
  if (depth == 0 || !schema.is_object()) return true;
  const auto sub = [&](const SchemaValue& other) { return AcceptsRawTextWithin(root, other, depth - 1); };
  if (const SchemaValue* reference = schema.Find("$ref"); reference != nullptr && reference->is_string()) {
    const SchemaValue* target = ResolveReference(root, reference->text());
    return target == nullptr || sub(*target);
  }
  if (const SchemaValue* value = schema.Find("const")) return value->is_string();
  if (const SchemaValue* values = schema.Find("enum"); values != nullptr && values->is_array()) {
    return std::ranges::any_of(values->items(), &SchemaValue::is_string);
  }
  for (const char* keyword : {"anyOf", "oneOf", "allOf"}) {
    const SchemaValue* branches = schema.Find(keyword);
    if (branches != nullptr && branches->is_array()) return std::ranges::any_of(branches->items(), sub);
  }
  const Result<std::set<std::string>> types = ReadTypes(schema, "");
  return !types.ok() || types->contains("string");
}

}  // namespace

bool AcceptsRawText(const SchemaValue& root, const SchemaValue& schema) {
  return AcceptsRawTextWithin(root, schema, kMaxReferences);
}

ParameterTypes::ParameterTypes(std::string_view tools) {
  GrammarBudget budget;
  while (!tools.empty()) {
    const std::string_view line = tools.substr(0, tools.find('\n'));
    tools.remove_prefix(std::min(line.size() + 1, tools.size()));
    const Result<SchemaValue> tool = SchemaValue::Parse(line, budget);
    const SchemaValue* function = tool.ok() ? tool->Find("function") : nullptr;
    const SchemaValue* name = function == nullptr ? nullptr : function->Find("name");
    const SchemaValue* schema = function == nullptr ? nullptr : function->Find("parameters");
    const SchemaValue* properties = schema == nullptr ? nullptr : schema->Find("properties");
    if (name == nullptr || properties == nullptr || !properties->is_object()) continue;
    for (const auto& [key, value] : properties->members()) {
      if (!AcceptsRawText(*schema, value)) json_.insert(name->text() + '\n' + key);
    }
  }
}

bool ParameterTypes::IsText(std::string_view tool, std::string_view parameter) const {
  return !json_.contains(std::string(tool) + '\n' + std::string(parameter));
}

}  // namespace ringside
