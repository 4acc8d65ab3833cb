#include "engine/grammar/schema/schema_keywords.h"

#include <algorithm>
#include <array>
#include <map>

#include "base/limits.h"

namespace ringside {
namespace {

using Names = std::set<std::string_view>;

constexpr size_t kMaxKeywordBytes = 64;  // longer than any keyword

// Validation keywords of any draft, and of OpenAPI, that are not supported. All other names are annotations, as JSON
// Schema defines.
const Names kNotSupported = {"not",
                             "if",
                             "then",
                             "else",
                             "dependentSchemas",
                             "dependentRequired",
                             "dependencies",
                             "contains",
                             "minContains",
                             "maxContains",
                             "additionalItems",
                             "unevaluatedItems",
                             "unevaluatedProperties",
                             "patternProperties",
                             "propertyNames",
                             "minProperties",
                             "maxProperties",
                             "uniqueItems",
                             "multipleOf",
                             "divisibleBy",
                             "disallow",
                             "extends",
                             "$dynamicRef",
                             "$recursiveRef",
                             "formatMinimum",
                             "formatMaximum",
                             "formatExclusiveMinimum",
                             "formatExclusiveMaximum",
                             "$id"};
// Each defines the values by itself; no validation keyword is allowed next to it.
const Names kAlone = {"$ref", "const", "enum", "anyOf", "oneOf", "allOf"};

const std::map<std::string_view, std::string_view> kTypeOfKeyword = {
    {"properties", "object"}, {"required", "object"},         {"additionalProperties", "object"},
    {"items", "array"},       {"prefixItems", "array"},       {"minItems", "array"},
    {"maxItems", "array"},    {"minLength", "string"},        {"maxLength", "string"},
    {"pattern", "string"},    {"format", "string"},           {"minimum", "number"},
    {"maximum", "number"},    {"exclusiveMinimum", "number"}, {"exclusiveMaximum", "number"},
};

// True for unsupported keywords that have no effect with this value, or at this place.
bool HasNoEffect(std::string_view keyword, const SchemaValue& value, bool root) {
  if (keyword == "$id") return root;
  if (keyword == "uniqueItems") return value.is_bool(false);
  if (keyword == "minProperties") return value.is_number() && value.number() == 0;
  return false;
}

std::string NormalizeKeyword(std::string_view name) {
  std::string out;
  for (const char c : name) {
    if (c != '_' && c != '-') out += static_cast<char>(c >= 'A' && c <= 'Z' ? c + ('a' - 'A') : c);
  }
  return out;
}

// The keyword that a name misspells (max_length, additionalproperties); "" = none. Otherwise it would be ignored as an
// annotation.
std::string_view FindIntendedKeyword(std::string_view name) {
  static const std::map<std::string, std::string_view> keywords = [] {
    std::map<std::string, std::string_view> out;
    for (const auto& [keyword, type] : kTypeOfKeyword) out.emplace(NormalizeKeyword(keyword), keyword);
    for (const Names* names : {&kAlone, &kNotSupported}) {
      for (const std::string_view keyword : *names) out.emplace(NormalizeKeyword(keyword), keyword);
    }
    return out;
  }();
  if (name.size() > kMaxKeywordBytes) return "";
  const auto found = keywords.find(NormalizeKeyword(name));
  return found == keywords.end() || found->second == name ? "" : found->second;
}

Status NotSupported(const std::string& path, const std::string& why) {
  return InvalidArgument("Invalid schema: '" + path + "': " + why, path, "unsupported_value");
}

constexpr std::string_view kDate =
    "([1-9][0-9]{3}-((0[13578]|1[02])-(0[1-9]|[12][0-9]|3[01])|(0[469]|11)-(0[1-9]|[12][0-9]|30)|02-(0[1-9]|1[0-9]|2[0-"
    "8]))"
    "|([1-9][0-9](0[48]|[2468][048]|[13579][26])|([2468][048]|[13579][26])00)-02-29)";
constexpr std::string_view kTime =
    "([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](\\.[0-9]{1,6})?(Z|[+-]([01][0-9]|2[0-3]):[0-5][0-9])";
constexpr std::string_view kOctet = "(25[0-5]|2[0-4][0-9]|1[0-9][0-9]|[1-9]?[0-9])";
constexpr std::string_view kLabel = "[A-Za-z0-9]([A-Za-z0-9-]{0,61}[A-Za-z0-9])?";

const std::map<std::string_view, std::string>& Formats() {
  static const std::map<std::string_view, std::string> formats = [] {
    const std::string date(kDate), time(kTime), octet(kOctet), label(kLabel);
    const std::string domain = label + "(\\." + label + "){0,2}\\.[A-Za-z]{2,12}";
    return std::map<std::string_view, std::string>{
        {"date", "^" + date + "$"},
        {"time", "^" + time + "$"},
        {"date-time", "^" + date + "T" + time + "$"},
        {"uuid", "^[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}$"},
        {"ipv4", "^" + octet + "(\\." + octet + "){3}$"},
        {"email", "^[A-Za-z0-9_+-]{1,32}(\\.[A-Za-z0-9_+-]{1,15}){0,2}@" + domain + "$"},
        {"hostname", "^" + domain + "$"},
    };
  }();
  return formats;
}

}  // namespace

Status SchemaError(const std::string& path, const std::string& what) {
  return InvalidArgument("Invalid schema at '" + path + "': " + what, path, "invalid_value");
}

Status SchemaError(const std::string& path, const Status& status) {
  return {status.code(), "Invalid schema at '" + path + "': " + status.message(), path, "invalid_value"};
}

Status CheckKeywords(const SchemaValue& schema, const std::string& path, bool root) {
  std::string_view alone, other;
  for (const auto& [keyword, value] : schema.members()) {
    const auto at = [&, &name = keyword] { return path + "." + name.substr(0, 256); };
    if (kAlone.contains(keyword)) {
      if (!alone.empty())
        return SchemaError(at(), "'" + keyword + "' is not supported together with '" + std::string(alone) + "'.");
      alone = keyword;
    } else if (keyword == "type" || kTypeOfKeyword.contains(keyword)) {
      // `type` filters the values of const and enum.
      if (keyword != "type") other = keyword;
    } else if (keyword == "nullable") {
      if (value.kind() != SchemaValue::Kind::kBool) return SchemaError(at(), "a boolean is expected.");
    } else if (kNotSupported.contains(keyword) && !HasNoEffect(keyword, value, root)) {
      return NotSupported(at(), "this keyword is not supported.");
    } else if (const std::string_view meant = FindIntendedKeyword(keyword); !meant.empty()) {
      return NotSupported(at(), "there is no such keyword; use '" + std::string(meant) + "'.");
    }
  }
  const bool lists = alone == "const" || alone == "enum";
  if (!alone.empty() && !lists && schema.Find("type") != nullptr) other = "type";
  if (alone.empty() || other.empty()) return Status::Ok();
  return InvalidArgument(
      "Invalid schema: '" + std::string(other) + "' is not supported together with '" + std::string(alone) + "'.",
      path + "." + std::string(other), "unsupported_value");
}

bool IsNullable(const SchemaValue& schema) {
  const SchemaValue* nullable = schema.Find("nullable");
  return nullable != nullptr && nullable->is_bool(true) && schema.Find("const") == nullptr &&
         schema.Find("enum") == nullptr;
}

Result<std::set<std::string>> ReadTypes(const SchemaValue& schema, const std::string& path) {
  static const std::set<std::string> all = {"null", "boolean", "number", "string", "array", "object"};
  std::set<std::string> types;
  const SchemaValue* type = schema.Find("type");
  const auto add = [&](const SchemaValue& name) -> Status {
    if (!name.is_string() || (!all.contains(name.text()) && name.text() != "integer")) {
      return SchemaError(path + ".type", "a type is one of null, boolean, integer, number, string, array and object.");
    }
    types.insert(name.text());
    return Status::Ok();
  };
  if (type != nullptr) {
    if (!type->is_array()) {
      RETURN_IF_ERROR(add(*type));
      return types;
    }
    for (const SchemaValue& name : type->items()) RETURN_IF_ERROR(add(name));
    if (types.empty()) return SchemaError(path + ".type", "the list of types is empty.");
    return types;
  }
  for (const auto& [keyword, value] : schema.members()) {
    const auto about = kTypeOfKeyword.find(keyword);
    if (about != kTypeOfKeyword.end()) types.emplace(about->second);
  }
  if (types.size() > 1) return SchemaError(path, "'type' is missing, and its keywords imply more than one type.");
  return types.empty() ? all : types;
}

Result<std::optional<uint32_t>> ReadCount(const SchemaValue& schema, const std::string& path, const char* keyword) {
  const SchemaValue* value = schema.Find(keyword);
  if (value == nullptr) return std::optional<uint32_t>();
  const double number = value->number();
  if (!value->is_number() || !(number >= 0) ||
      number != static_cast<double>(static_cast<int64_t>(std::min(number, 1e15)))) {
    return SchemaError(path + "." + keyword, "a count is expected.");
  }
  if (number > static_cast<double>(limits::kMaxGrammarRepeats)) {
    return SchemaError(path + "." + keyword, "counts go up to " + std::to_string(limits::kMaxGrammarRepeats) + ".");
  }
  return std::optional<uint32_t>(static_cast<uint32_t>(number));
}

std::optional<std::string_view> PatternOfFormat(std::string_view format) {
  const auto found = Formats().find(format);
  return found == Formats().end() ? std::nullopt : std::optional<std::string_view>(found->second);
}

std::string SupportedFormats() {
  std::string list;
  for (const auto& [name, pattern] : Formats()) list += (list.empty() ? "" : ", ") + std::string(name);
  return list;
}

}  // namespace ringside
