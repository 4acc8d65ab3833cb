// Decides whether two schemas can match the same value, for oneOf. THREAD: one at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "engine/grammar/grammar_budget.h"
#include "engine/grammar/schema/schema_value.h"

namespace ringside {

/// The subschema that a `$ref` of "#" or "#/..." names, percent-encoded or not, alone or after the document's own
/// `$id`; nullptr if there is none, or it is in another document.
const SchemaValue* ResolveReference(const SchemaValue& root, std::string_view reference);

/// Compares the schemas of one document, with memoization. Takes time in proportion to the listed values; objects that
/// no required member distinguishes are compared in pairs.
class DisjointnessTest {
 public:
  /// REQUIRES: both outlive the test.
  DisjointnessTest(const SchemaValue& root, GrammarBudget& budget) : root_(root), budget_(budget) {}

  /// nullopt if certainly no value matches two of the schemas: their types differ, their listed values differ, or both
  /// require a member for which this holds. Otherwise the first two that may overlap. Meaningless once the budget is
  /// exhausted.
  std::optional<std::pair<size_t, size_t>> FindOverlap(std::span<const SchemaValue> schemas);

 private:
  using Types = uint8_t;     // bit set
  using ValueId = uint32_t;  // equal values share an id
  using Groups = std::pair<size_t, size_t>;

  /// An upper bound of the values that match a schema.
  struct Domain {
    Types open = 0;                           // all values of these types
    Types listed = 0;                         // types of `values`
    std::vector<ValueId> values;              // sorted, unique
    std::vector<const SchemaValue*> objects;  // objects as described by these schemas; sorted, unique
  };
  struct Alternative {
    const SchemaValue* schema;
    size_t group;
  };

  struct Grouped {
    const Domain* domain;
    size_t group;
  };

  const Domain& DomainOf(const SchemaValue& asked, int depth);
  Domain FindDomain(const SchemaValue& schema, int depth);
  void AddListed(const SchemaValue& value, Domain* domain);
  Domain Union(std::vector<const Domain*> parts);

  // Two groups whose alternatives may overlap.
  std::optional<Groups> Overlap(std::span<const Alternative> alternatives, int depth);
  std::optional<Groups> OverlapOfTypes(std::span<const Grouped> domains);
  std::optional<Groups> OverlapOfValues(std::span<const Grouped> domains);
  std::optional<Groups> OverlapOfObjects(const std::vector<Alternative>& objects, int depth);
  /// True if some required member has different listed values in each group.
  bool HaveTag(const std::vector<Alternative>& objects, int depth);
  bool IsTag(const std::vector<Alternative>& objects, const std::string& name, int depth);
  bool AreObjectsDisjoint(const SchemaValue& a, const SchemaValue& b, int depth);
  /// True if `a` requires a member that has other values in `b`, or that `b` forbids.
  bool DiffersByMember(const SchemaValue& a, const SchemaValue& b, int depth);

  const SchemaValue& root_;
  GrammarBudget& budget_;
  std::unordered_map<const SchemaValue*, Domain> domains_;
  std::unordered_map<std::string, ValueId> ids_;
  std::map<std::pair<const SchemaValue*, const SchemaValue*>, bool> pairs_;
};

}  // namespace ringside
