// Whether two schemas can be valid for one value, as oneOf needs. THREAD: one at a time.
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
/// `$id`; nullptr if there is none, or it is not of this document.
const SchemaValue* ResolveReference(const SchemaValue& root, std::string_view reference);

/// Answers for all schemas of one document, and remembers what it has found out. Takes time in proportion to the values
/// that they list; objects that no required member distinguishes are compared in pairs.
class DisjointnessTest {
 public:
  /// Both outlive the test.
  DisjointnessTest(const SchemaValue& root, GrammarBudget& budget) : root_(root), budget_(budget) {}

  /// Nothing if it is certain that no value is valid under two of the schemas: their types differ, the values that they
  /// list differ, or both require a member for which this holds. Else two that may overlap, the first ones
  /// found. Means nothing once the budget is spent.
  std::optional<std::pair<size_t, size_t>> FindOverlap(std::span<const SchemaValue> schemas);

 private:
  using Types = uint8_t;     // a bit each
  using ValueId = uint32_t;  // equal values have one
  using Groups = std::pair<size_t, size_t>;

  /// What may be valid under a schema: no value that is not of one of these kinds.
  struct Domain {
    Types open = 0;                           // any value of these types
    Types listed = 0;                         // the types of `values`
    std::vector<ValueId> values;              // sorted, each once
    std::vector<const SchemaValue*> objects;  // objects as these schemas describe them; sorted, each once
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
  /// Some member that all must have lists other values in each group.
  bool HaveTag(const std::vector<Alternative>& objects, int depth);
  bool IsTag(const std::vector<Alternative>& objects, const std::string& name, int depth);
  bool AreObjectsDisjoint(const SchemaValue& a, const SchemaValue& b, int depth);
  /// `a` demands a member that is another in `b`, or that `b` does not let in.
  bool DiffersByMember(const SchemaValue& a, const SchemaValue& b, int depth);

  const SchemaValue& root_;
  GrammarBudget& budget_;
  std::unordered_map<const SchemaValue*, Domain> domains_;
  std::unordered_map<std::string, ValueId> ids_;
  std::map<std::pair<const SchemaValue*, const SchemaValue*>, bool> pairs_;
};

}  // namespace ringside
