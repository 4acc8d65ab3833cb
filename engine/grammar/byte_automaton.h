// A deterministic automaton over bytes: a regular language that can be cut with, or taken out of, another. Immutable;
// any thread.
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
    std::vector<ByteMove> moves;  // ascending, each byte at most once
    bool ends = false;
  };

  // Each fails with the budget's status once that is spent.
  /// What the expression matches; it must name no rules. Draws from the source's budget.
  static Result<ByteAutomaton> Of(const GrammarSource& source, ExpressionId expression);
  static Result<ByteAutomaton> OfStrings(std::vector<std::string> strings, GrammarBudget& budget);
  /// What both accept.
  static Result<ByteAutomaton> And(const ByteAutomaton& a, const ByteAutomaton& b, GrammarBudget& budget) {
    return Combine(a, b, /*without=*/false, budget);
  }
  /// What `a` accepts and `b` does not.
  static Result<ByteAutomaton> Without(const ByteAutomaton& a, const ByteAutomaton& b, GrammarBudget& budget) {
    return Combine(a, b, /*without=*/true, budget);
  }

  /// What `a` accepts of `least` to `most` (perhaps kUnbounded) texts of `unit` in a row. No text of `unit` may be the
  /// beginning of another. The cost is proportional to the result.
  static Result<ByteAutomaton> Counted(const ByteAutomaton& a, const ByteAutomaton& unit, uint32_t least, uint32_t most,
                                       GrammarBudget& budget);

  /// State 0 is where it begins. From each a text can still be accepted, but of an empty language's only state.
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
