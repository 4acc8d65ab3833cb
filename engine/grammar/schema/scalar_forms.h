// Expressions of strings and numbers under their schema keywords. Compiles equal keywords once per document. THREAD:
// one.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/status.h"
#include "engine/grammar/byte_automaton.h"
#include "engine/grammar/grammar_source.h"
#include "engine/grammar/schema/json_text.h"
#include "engine/grammar/schema/schema_value.h"

namespace ringside {

class ScalarForms {
 public:
  /// REQUIRES: both outlive it.
  ScalarForms(GrammarSource* source, JsonRules* json) : source_(*source), budget_(source->budget()), json_(*json) {}

  // ERRORS: kInvalidArgument, with the keyword that is malformed, not supported or too large.
  /// Under `pattern`, `format`, `minLength` and `maxLength`.
  Result<ExpressionId> String(const SchemaValue& schema, const std::string& path);
  /// Under bounds.
  Result<ExpressionId> Number(const SchemaValue& schema, const std::string& path, bool integers);

 private:
  struct Constraint {
    std::string path, pattern;
  };

  static Result<std::vector<Constraint>> Constraints(const SchemaValue& schema, const std::string& path);
  Result<ExpressionId> Inside(const std::vector<Constraint>& constraints, std::optional<uint32_t> least,
                              std::optional<uint32_t> most, const std::string& path);
  /// The inside of a matching string, in canonical form.
  Result<ExpressionId> Pattern(const Constraint& constraint);
  Result<ByteAutomaton> All(const std::vector<Constraint>& constraints);
  Result<ByteAutomaton> Counted(const ByteAutomaton& inside, uint32_t least, uint32_t most);
  /// Memoizes `make` by key.
  template <class Make>
  Result<ExpressionId> Once(const std::string& key, const Make& make);

  GrammarSource& source_;
  GrammarBudget& budget_;
  JsonRules& json_;
  std::map<std::string, ExpressionId> made_;
  std::optional<ByteAutomaton> character_;  // one character of a string, in canonical form
};

}  // namespace ringside
