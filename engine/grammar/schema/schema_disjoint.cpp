#include "engine/grammar/schema/schema_disjoint.h"

#include <algorithm>
#include <charconv>
#include <optional>
#include <set>
#include <string>

namespace ringside {
namespace {

constexpr int kMostSteps = 4096;  // of one question

// A type list as the kinds of values it lets in: "integer" is a part of "number".
std::optional<std::set<std::string>> TypesOf(const SchemaValue& schema) {
  const SchemaValue* type = schema.Find("type");
  if (type == nullptr) return std::nullopt;
  std::set<std::string> types;
  if (type->is_string()) types.insert(type->text());
  for (const SchemaValue& item : type->items()) types.insert(item.text());
  if (types.contains("integer")) types.insert("number");
  return types;
}

// The values that a schema lists; nothing if it does not.
std::optional<std::vector<SchemaValue>> ValuesOf(const SchemaValue& schema) {
  if (const SchemaValue* value = schema.Find("const")) return std::vector<SchemaValue>{*value};
  if (const SchemaValue* values = schema.Find("enum"); values != nullptr && values->is_array()) return values->items();
  return std::nullopt;
}

bool IsObjectOnly(const SchemaValue& schema) {
  const auto types = TypesOf(schema);
  return types && *types == std::set<std::string>{"object"};
}

const char* TypeOfValue(const SchemaValue& value) {
  switch (value.kind()) {
    case SchemaValue::Kind::kNull:
      return "null";
    case SchemaValue::Kind::kBool:
      return "boolean";
    case SchemaValue::Kind::kNumber:
      return "number";
    case SchemaValue::Kind::kString:
      return "string";
    case SchemaValue::Kind::kArray:
      return "array";
    case SchemaValue::Kind::kObject:
      break;
  }
  return "object";
}

class DisjointnessTest {
 public:
  explicit DisjointnessTest(const SchemaValue& root) : root_(root) {}

  bool Holds(const SchemaValue& a, const SchemaValue& b, int depth) {
    if (++steps_ > kMostSteps || depth > 32) return false;
    if (a.is_bool(false) || b.is_bool(false)) return true;
    if (!a.is_object() || !b.is_object()) return false;
    for (const auto& [one, other] : {std::pair(&a, &b), std::pair(&b, &a)}) {
      if (const SchemaValue* reference = one->Find("$ref"); reference != nullptr && reference->is_string()) {
        const SchemaValue* target = ResolveReference(root_, reference->text());
        return target != nullptr && Holds(*target, *other, depth + 1);
      }
      for (const char* keyword : {"anyOf", "oneOf", "allOf"}) {
        const SchemaValue* branches = one->Find(keyword);
        if (branches == nullptr) continue;
        return std::ranges::all_of(branches->items(), [&, rest = other](const SchemaValue& branch) {
          return Holds(branch, *rest, depth + 1);
        });
      }
    }
    return ByType(a, b) || ByMember(a, b, depth) || ByMember(b, a, depth);
  }

 private:
  static bool ByType(const SchemaValue& a, const SchemaValue& b) {
    const auto a_values = ValuesOf(a), b_values = ValuesOf(b);
    if (a_values && b_values) {
      return std::ranges::none_of(
          *a_values, [&](const SchemaValue& value) { return std::ranges::find(*b_values, value) != b_values->end(); });
    }
    const auto kinds = [](const SchemaValue& schema, const auto& values) {
      if (!values) return TypesOf(schema);
      std::optional<std::set<std::string>> out(std::in_place);
      for (const SchemaValue& value : *values) out->insert(TypeOfValue(value));
      return out;
    };
    const auto a_types = kinds(a, a_values), b_types = kinds(b, b_values);
    return a_types && b_types &&
           std::ranges::none_of(*a_types, [&](const std::string& type) { return b_types->contains(type); });
  }

  // `a` demands a member that is another in `b`, or that `b` does not let in.
  bool ByMember(const SchemaValue& a, const SchemaValue& b, int depth) {
    if (!IsObjectOnly(a) || !IsObjectOnly(b)) return false;
    const SchemaValue *own = a.Find("properties"), *others = b.Find("properties"),
                      *rest = b.Find("additionalProperties"), *required = a.Find("required");
    if (required == nullptr) return false;
    for (const SchemaValue& name : required->items()) {
      if (!name.is_string()) continue;
      const SchemaValue* other = others == nullptr ? nullptr : others->Find(name.text());
      if (other == nullptr && rest != nullptr && rest->is_bool(false)) return true;
      const SchemaValue* mine = own == nullptr ? nullptr : own->Find(name.text());
      if (mine == nullptr || other == nullptr) continue;
      if (Holds(*mine, *other, depth + 1)) return true;
    }
    return false;
  }

  const SchemaValue& root_;
  int steps_ = 0;
};

}  // namespace

const SchemaValue* ResolveReference(const SchemaValue& root, std::string_view reference) {
  if (!reference.starts_with('#')) return nullptr;
  reference.remove_prefix(1);
  const SchemaValue* at = &root;
  while (!reference.empty()) {
    if (reference.front() != '/') return nullptr;
    reference.remove_prefix(1);
    const size_t end = std::min(reference.find('/'), reference.size());
    std::string name;
    for (size_t i = 0; i < end; ++i) {
      const bool escape = reference[i] == '~' && i + 1 < end && (reference[i + 1] == '0' || reference[i + 1] == '1');
      name += escape ? (reference[++i] == '0' ? '~' : '/') : reference[i];
    }
    reference.remove_prefix(end);
    if (at->is_object()) {
      at = at->Find(name);
    } else {
      size_t index = 0;
      const auto read = std::from_chars(name.data(), name.data() + name.size(), index);
      const bool whole = read.ec == std::errc() && read.ptr == name.data() + name.size();
      at = at->is_array() && whole && index < at->items().size() ? &at->items()[index] : nullptr;
    }
    if (at == nullptr) return nullptr;
  }
  return at;
}

bool AreDisjoint(const SchemaValue& root, const SchemaValue& a, const SchemaValue& b) {
  return DisjointnessTest(root).Holds(a, b, 0);
}

}  // namespace ringside
