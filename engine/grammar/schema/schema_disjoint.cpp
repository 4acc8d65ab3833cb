#include "engine/grammar/schema/schema_disjoint.h"

#include <algorithm>
#include <array>
#include <charconv>

#include "base/hex.h"
#include "engine/grammar/schema/schema_keywords.h"

namespace ringside {
namespace {

constexpr int kMaxComparisonDepth = 32;
// Cost of comparing two objects; of looking up and comparing a member.
constexpr int64_t kPairSteps = 32, kMemberSteps = 32;
constexpr size_t kMaxTags = 16;  // members to try
constexpr size_t kTypes = 6;
constexpr std::array<std::string_view, kTypes> kTypeNames = {"null", "boolean", "number", "string", "array", "object"};
constexpr uint8_t kAllTypes = (1u << kTypes) - 1, kNull = 1, kObject = 1u << 5;
// Approximate bytes of an entry, including the map's overhead.
constexpr int64_t kDomainBytes = 160, kIdBytes = 96, kPairBytes = 96;

// Index by SchemaValue::Kind.
uint8_t TypeOfValue(const SchemaValue& value) { return static_cast<uint8_t>(1u << static_cast<int>(value.kind())); }

// "integer" is a subset of "number".
uint8_t TypeNamed(std::string_view name) {
  if (name == "integer") name = "number";
  const auto found = std::ranges::find(kTypeNames, name);
  return found == kTypeNames.end() ? 0 : static_cast<uint8_t>(1u << (found - kTypeNames.begin()));
}

uint8_t TypesOf(const SchemaValue& schema) {
  const SchemaValue* type = schema.Find("type");
  if (type == nullptr) return kAllTypes;
  uint8_t types = type->is_string() ? TypeNamed(type->text()) : 0;
  for (const SchemaValue& item : type->items()) types |= TypeNamed(item.text());
  return types;
}

const SchemaValue* PropertyOf(const SchemaValue& schema, const std::string& name) {
  const SchemaValue* properties = schema.Find("properties");
  return properties == nullptr ? nullptr : properties->Find(name);
}

const SchemaValue* BranchesOf(const SchemaValue& schema) {
  for (const char* keyword : {"anyOf", "oneOf", "allOf"}) {
    if (const SchemaValue* branches = schema.Find(keyword)) return branches;
  }
  return nullptr;
}

template <class T>
void SortUnique(std::vector<T>* items) {
  std::ranges::sort(*items);
  const auto repeated = std::ranges::unique(*items);
  items->erase(repeated.begin(), repeated.end());
}

// Decodes a URI fragment (RFC 3986); a malformed escape is literal text.
std::string PercentDecoded(std::string_view text) {
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    const int high = text[i] == '%' && i + 2 < text.size() ? HexDigit(text[i + 1]) : -1;
    const int low = high < 0 ? -1 : HexDigit(text[i + 2]);
    if (low < 0) {
      out += text[i];
      continue;
    }
    out += static_cast<char>(high * 16 + low);
    i += 2;
  }
  return out;
}

// Unescapes a token of a JSON pointer (RFC 6901).
std::string Unescaped(std::string_view token) {
  std::string out;
  for (size_t i = 0; i < token.size(); ++i) {
    const bool escape = token[i] == '~' && i + 1 < token.size() && (token[i + 1] == '0' || token[i + 1] == '1');
    out += escape ? (token[++i] == '0' ? '~' : '/') : token[i];
  }
  return out;
}

}  // namespace

const SchemaValue* ResolveReference(const SchemaValue& root, std::string_view reference) {
  const SchemaValue* id = root.Find("$id");
  if (id != nullptr && !id->text().empty() && reference.starts_with(id->text())) {
    reference.remove_prefix(std::string_view(id->text()).find_last_not_of('#') + 1);
    if (reference.empty()) return &root;
  }
  if (!reference.starts_with('#')) return nullptr;
  const std::string pointer = PercentDecoded(reference.substr(1));
  std::string_view rest = pointer;
  const SchemaValue* at = &root;
  while (!rest.empty() && at != nullptr) {
    if (rest.front() != '/') return nullptr;
    rest.remove_prefix(1);
    const size_t end = std::min(rest.find('/'), rest.size());
    const std::string name = Unescaped(rest.substr(0, end));
    rest.remove_prefix(end);
    if (at->is_object()) {
      at = at->Find(name);
      continue;
    }
    size_t index = 0;
    const auto read = std::from_chars(name.data(), name.data() + name.size(), index);
    const bool whole = read.ec == std::errc() && read.ptr == name.data() + name.size();
    at = at->is_array() && whole && index < at->items().size() ? &at->items()[index] : nullptr;
  }
  return at;
}

std::optional<std::pair<size_t, size_t>> DisjointnessTest::FindOverlap(std::span<const SchemaValue> schemas) {
  std::vector<Alternative> alternatives;
  for (size_t i = 0; i < schemas.size(); ++i) alternatives.push_back({&schemas[i], i});
  auto found = Overlap(alternatives, 0);
  if (found && found->first > found->second) std::swap(found->first, found->second);
  return found;
}

const DisjointnessTest::Domain& DisjointnessTest::DomainOf(const SchemaValue& asked, int depth) {
  const SchemaValue* schema = &asked;
  for (; depth <= kMaxComparisonDepth && budget_.Spend(1); ++depth) {
    const SchemaValue* reference = schema->Find("$ref");
    const bool refers = reference != nullptr && reference->is_string() && !IsNullable(*schema);
    const SchemaValue* target = refers ? ResolveReference(root_, reference->text()) : nullptr;
    if (target == nullptr) break;
    schema = target;
  }
  // Provisional value for a schema that contains itself: it may be anything.
  const auto [at, added] = domains_.try_emplace(schema, Domain{.open = kAllTypes});
  Domain& domain = at->second;
  if (!added || depth > kMaxComparisonDepth || !budget_.Spend(4) || !budget_.Hold(kDomainBytes)) return domain;
  Domain found = FindDomain(*schema, depth);
  const size_t bytes = sizeof(ValueId) * found.values.size() + sizeof(SchemaValue*) * found.objects.size();
  if (budget_.Hold(static_cast<int64_t>(bytes))) domain = std::move(found);
  return domain;
}

DisjointnessTest::Domain DisjointnessTest::FindDomain(const SchemaValue& schema, int depth) {
  Domain domain;
  if (schema.is_bool(false)) return domain;
  if (const SchemaValue* value = schema.Find("const")) {
    AddListed(*value, &domain);
  } else if (const SchemaValue* values = schema.Find("enum"); values != nullptr && values->is_array()) {
    for (const SchemaValue& one : values->items()) AddListed(one, &domain);
    SortUnique(&domain.values);
  } else if (const SchemaValue* reference = schema.Find("$ref")) {  // with `nullable`, or unresolved
    const SchemaValue* target = ResolveReference(root_, reference->text());
    domain.open = kAllTypes;
    if (target != nullptr) domain = DomainOf(*target, depth + 1);
  } else if (const SchemaValue* branches = BranchesOf(schema)) {
    std::vector<const Domain*> parts;
    for (const SchemaValue& branch : branches->items()) parts.push_back(&DomainOf(branch, depth + 1));
    domain = Union(std::move(parts));
  } else if (schema.is_object() && schema.Find("type") != nullptr) {
    domain.open = static_cast<Types>(TypesOf(schema) & ~kObject);
    if ((TypesOf(schema) & kObject) != 0) domain.objects.push_back(&schema);
  } else {
    domain.open = kAllTypes;
  }
  if (IsNullable(schema)) domain.open |= kNull;
  return domain;
}

void DisjointnessTest::AddListed(const SchemaValue& value, Domain* domain) {
  const std::string key = value.Key();
  if (!budget_.Spend(2 + static_cast<int64_t>(key.size()) / 8)) return;
  const auto [at, added] = ids_.try_emplace(key, static_cast<ValueId>(ids_.size()));
  if (added && !budget_.Hold(kIdBytes + static_cast<int64_t>(key.size()))) return;
  domain->values.push_back(at->second);
  domain->listed |= TypeOfValue(value);
}

DisjointnessTest::Domain DisjointnessTest::Union(std::vector<const Domain*> parts) {
  SortUnique(&parts);
  Domain whole;
  for (const Domain* part : parts) {
    if (!budget_.Spend(2 * std::ssize(part->values) + 2 * std::ssize(part->objects))) break;
    whole.open |= part->open;
    whole.listed |= part->listed;
    whole.values.insert(whole.values.end(), part->values.begin(), part->values.end());
    whole.objects.insert(whole.objects.end(), part->objects.begin(), part->objects.end());
  }
  SortUnique(&whole.values);
  SortUnique(&whole.objects);
  return whole;
}

std::optional<DisjointnessTest::Groups> DisjointnessTest::Overlap(std::span<const Alternative> alternatives,
                                                                  int depth) {
  if (depth > kMaxComparisonDepth) return Groups{alternatives.front().group, alternatives.back().group};
  if (!budget_.Spend(kMemberSteps)) return std::nullopt;
  std::vector<Grouped> domains;
  for (const auto& [schema, group] : alternatives) domains.push_back({&DomainOf(*schema, depth), group});
  if (const auto found = OverlapOfTypes(domains)) return found;
  if (const auto found = OverlapOfValues(domains)) return found;
  std::vector<Alternative> objects;
  for (const auto& [domain, group] : domains) {
    if (!budget_.Spend(1 + std::ssize(domain->objects))) return std::nullopt;
    for (const SchemaValue* object : domain->objects) objects.push_back({object, group});
  }
  return OverlapOfObjects(objects, depth);
}

std::optional<DisjointnessTest::Groups> DisjointnessTest::OverlapOfTypes(std::span<const Grouped> domains) {
  // Each type has a group with open domains, one that lists values, and one that describes objects.
  for (size_t type = 0; type < kTypes; ++type) {
    const auto bit = static_cast<Types>(1u << type);
    std::optional<size_t> any, some, described;
    for (const auto& [domain, group] : domains) {
      if ((domain->open & bit) != 0 && !any) any = group;
      if ((domain->listed & bit) != 0 && !some) some = group;
      if (bit == kObject && !domain->objects.empty() && !described) described = group;
    }
    for (const auto& [domain, group] : domains) {
      const bool opens = (domain->open & bit) != 0, lists = (domain->listed & bit) != 0;
      const bool describes = bit == kObject && !domain->objects.empty();
      if ((opens || lists || describes) && any && *any != group) return Groups{*any, group};
      if (describes && some && *some != group) return Groups{*some, group};
      if (lists && described && *described != group) return Groups{*described, group};
    }
  }
  return std::nullopt;
}

std::optional<DisjointnessTest::Groups> DisjointnessTest::OverlapOfValues(std::span<const Grouped> domains) {
  std::vector<std::pair<ValueId, size_t>> values;
  for (const auto& [domain, group] : domains) {
    if (!budget_.Spend(1 + 2 * std::ssize(domain->values))) return std::nullopt;
    for (const ValueId value : domain->values) values.emplace_back(value, group);
  }
  SortUnique(&values);
  const auto shared = std::ranges::adjacent_find(values, {}, &std::pair<ValueId, size_t>::first);
  if (shared == values.end()) return std::nullopt;
  return Groups{shared->second, (shared + 1)->second};
}

std::optional<DisjointnessTest::Groups> DisjointnessTest::OverlapOfObjects(const std::vector<Alternative>& objects,
                                                                           int depth) {
  const auto differs = [&](const Alternative& other) { return other.group != objects.front().group; };
  if (objects.empty() || std::ranges::none_of(objects, differs) || HaveTag(objects, depth)) return std::nullopt;
  for (size_t i = 0; i < objects.size(); ++i) {
    for (size_t j = 0; j < i; ++j) {
      if (objects[i].group == objects[j].group) continue;
      if (!AreObjectsDisjoint(*objects[j].schema, *objects[i].schema, depth)) {
        return Groups{objects[j].group, objects[i].group};
      }
      if (!budget_.ok()) return std::nullopt;
    }
  }
  return std::nullopt;
}

bool DisjointnessTest::HaveTag(const std::vector<Alternative>& objects, int depth) {
  const SchemaValue* required = objects.front().schema->Find("required");
  if (required == nullptr) return false;
  size_t tried = 0;
  for (const SchemaValue& name : required->items()) {
    if (!budget_.Spend(1) || tried == kMaxTags) return false;
    const SchemaValue* member = PropertyOf(*objects.front().schema, name.text());
    if (member == nullptr || DomainOf(*member, depth + 1).values.empty()) continue;
    ++tried;
    if (IsTag(objects, name.text(), depth)) return true;
  }
  return false;
}

bool DisjointnessTest::IsTag(const std::vector<Alternative>& objects, const std::string& name, int depth) {
  std::vector<Grouped> members;
  for (const auto& [schema, group] : objects) {
    const SchemaValue *member = PropertyOf(*schema, name), *required = schema->Find("required");
    if (member == nullptr || required == nullptr || !budget_.Spend(2 + std::ssize(required->items()))) return false;
    const auto is_name = [&](const SchemaValue& item) { return item.is_string() && item.text() == name; };
    if (std::ranges::none_of(required->items(), is_name)) return false;
    const Domain& domain = DomainOf(*member, depth + 1);
    if (domain.open != 0 || !domain.objects.empty()) return false;
    members.push_back({&domain, group});
  }
  return !OverlapOfValues(members);
}

bool DisjointnessTest::AreObjectsDisjoint(const SchemaValue& a, const SchemaValue& b, int depth) {
  const auto [at, added] = pairs_.try_emplace(std::minmax(&a, &b), false);
  if (!added || !budget_.Spend(kPairSteps) || !budget_.Hold(kPairBytes)) return at->second;
  bool& disjoint = at->second;
  return disjoint = DiffersByMember(a, b, depth) || DiffersByMember(b, a, depth);
}

bool DisjointnessTest::DiffersByMember(const SchemaValue& a, const SchemaValue& b, int depth) {
  const SchemaValue *required = a.Find("required"), *rest = b.Find("additionalProperties");
  if (required == nullptr) return false;
  for (const SchemaValue& name : required->items()) {
    if (!budget_.Spend(kMemberSteps)) return false;
    if (!name.is_string()) continue;
    const SchemaValue *mine = PropertyOf(a, name.text()), *other = PropertyOf(b, name.text());
    if (other == nullptr && rest != nullptr && rest->is_bool(false)) return true;
    if (mine == nullptr || other == nullptr) continue;
    const Alternative both[] = {{mine, 0}, {other, 1}};
    if (!Overlap(both, depth + 1)) return budget_.ok();
  }
  return false;
}

}  // namespace ringside
