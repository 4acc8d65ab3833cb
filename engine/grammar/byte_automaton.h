// A deterministic finite automaton over bytes: a regular language, with intersection and difference. Immutable. THREAD:
// any.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/status.h"
#include "engine/grammar/state_graph.h"

namespace ringside {

class ByteAutomaton {
 public:
  struct State {
    std::vector<ByteMove> moves;  // ascending; each byte at most once
    bool ends = false;
  };

  // ERRORS: the budget's status once it is exhausted, for all below.
  /// The language of an expression. Charges the source's budget. REQUIRES: no rules in the expression.
  static Result<ByteAutomaton> Of(const GrammarSource& source, ExpressionId expression);
  static Result<ByteAutomaton> OfStrings(std::vector<std::string> strings, GrammarBudget& budget);
  /// Intersection.
  static Result<ByteAutomaton> And(const ByteAutomaton& a, const ByteAutomaton& b, GrammarBudget& budget) {
    return Combine(a, b, /*without=*/false, budget);
  }
  /// Difference: accepted by `a` and not by `b`.
  static Result<ByteAutomaton> Without(const ByteAutomaton& a, const ByteAutomaton& b, GrammarBudget& budget) {
    return Combine(a, b, /*without=*/true, budget);
  }

  /// Texts of `a` that consist of `least` to `most` (or kUnbounded) texts of `unit`. The cost is proportional to the
  /// result. REQUIRES: no text of `unit` is a prefix of another one.
  static Result<ByteAutomaton> Counted(const ByteAutomaton& a, const ByteAutomaton& unit, uint32_t least, uint32_t most,
                                       GrammarBudget& budget);

  /// State 0 is the start. Every state can reach an accepting one, except the only state of an empty language.
  const std::vector<State>& states() const { return states_; }
  bool empty() const { return states_.size() == 1 && !states_[0].ends && states_[0].moves.empty(); }
  bool Accepts(std::string_view text) const;

 private:
  static Result<ByteAutomaton> Combine(const ByteAutomaton& a, const ByteAutomaton& b, bool without,
                                       GrammarBudget& budget);
  /// Drops dead states and charges the memory of the others.
  Status Trim(GrammarBudget& budget);

  std::vector<State> states_;
};

}  // namespace ringside
