#include "ws/fields/field_info.h"

#include <utility>

namespace ringside {

std::string FieldTypeName(FieldType type) {
  static constexpr std::pair<FieldType, std::string_view> kNames[] = {
      {FieldType::kBool, "boolean"},  {FieldType::kInteger, "integer"}, {FieldType::kNumber, "number"},
      {FieldType::kString, "string"}, {FieldType::kArray, "array"},     {FieldType::kObject, "object"}};
  if (type == FieldType::kAny) return "any";
  std::string all;
  for (const auto& [each, name] : kNames) {
    if (Takes(type, each)) all += (all.empty() ? "" : " or ") + std::string(name);
  }
  return all;
}

std::string_view FieldPolicyName(FieldPolicy policy) {
  static constexpr std::string_view kNames[] = {"read", "clamp", "lenient", "hint", "silent", "refuse"};
  return kNames[static_cast<size_t>(policy)];
}

std::string RangeText(int64_t low, int64_t high) {
  const bool below = low > INT64_MIN, above = high < INT64_MAX;
  if (below && above) return std::to_string(low) + " to " + std::to_string(high);
  if (below) return "at least " + std::to_string(low);
  return above ? "at most " + std::to_string(high) : "";
}

}  // namespace ringside
