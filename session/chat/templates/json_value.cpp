#include "session/chat/templates/json_value.h"

#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "base/json/json_tree.h"

namespace ringside {
namespace {

using OrderedJson = nlohmann::ordered_json;
using jinja::Value;

Result<Value> Convert(const OrderedJson& json, const TextChange& change, int depth) {
  if (depth > jinja::kMaxValueDepth) return InvalidArgument("JSON is nested too deeply");
  if (json.is_null()) return Value(Value::None{});
  if (json.is_boolean()) return Value(json.get<bool>());
  if (json.is_number_unsigned() && json.get<uint64_t>() > INT64_MAX) return Value(json.get<double>());
  if (json.is_number_integer()) return Value(json.get<int64_t>());
  if (json.is_number()) return Value(json.get<double>());
  const auto changed = [&](const std::string& text) { return Value(change ? change(text) : text); };
  if (json.is_string()) return changed(json.get_ref<const std::string&>());
  if (json.is_array()) {
    std::vector<Value> items;
    for (const OrderedJson& part : json) {
      ASSIGN_OR_RETURN(Value item, Convert(part, change, depth + 1));
      items.push_back(std::move(item));
    }
    return jinja::MakeList(std::move(items));
  }
  std::vector<std::pair<Value, Value>> entries;
  for (const auto& [key, part] : json.items()) {
    ASSIGN_OR_RETURN(Value value, Convert(part, change, depth + 1));
    entries.emplace_back(changed(key), std::move(value));
  }
  return jinja::MakeMapping(std::move(entries));
}

}  // namespace

std::string ToJsonText(std::string_view json) {
  const Result<Value> value = ValueOfJson(json);
  Result<std::string> text = value.ok() ? jinja::ToJson(*value, {}) : Result<std::string>(value.status());
  return text.ok() ? *std::move(text) : std::string(json);
}

Result<Value> ValueOfJson(std::string_view json, const TextChange& change) {
  const OrderedJson parsed = ParseOrderedJsonTree(json);
  if (parsed.is_discarded()) return InvalidArgument("not valid JSON");
  return Convert(parsed, change, 0);
}

}  // namespace ringside
