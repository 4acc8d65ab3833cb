// The states that an expression is written out to (Thompson 1968): moves over bytes, steps over nothing, calls of
// rules. Raw material for ByteAutomaton and TransitionNetwork. One thread at a time.
#pragma once

#include <cstdint>
#include <vector>

#include "base/status.h"
#include "engine/grammar/grammar_source.h"

namespace ringside {

using StateId = uint32_t;

/// Reads one byte from first to last.
struct ByteMove {
  uint8_t first = 0, last = 0;
  StateId to = 0;
  friend bool operator==(const ByteMove&, const ByteMove&) = default;
};

/// Reads what the rule matches, then goes on at `back`.
struct RuleCall {
  RuleId rule = 0;
  StateId back = 0;
  friend bool operator==(const RuleCall&, const RuleCall&) = default;
};

class StateGraph {
 public:
  struct State {
    std::vector<ByteMove> moves;
    std::vector<StateId> steps;
    std::vector<RuleCall> calls;
  };

  explicit StateGraph(GrammarBudget& budget) : budget_(budget), memory_(budget) {}

  /// 0, and nothing is added, once the budget is spent.
  StateId Add();
  /// Lets `from` reach `to` by exactly what the expression matches. Both may have other ways out and in. The budget's
  /// status, with the keyword that it was spent on as `param`, if it does not suffice: the graph is of no use then.
  Status Emit(const GrammarSource& source, ExpressionId expression, StateId from, StateId to);

  const std::vector<State>& states() const { return states_; }

 private:
  Status EmitParts(const GrammarSource& source, const Expression& expression, StateId from, StateId to);
  Status EmitChoice(const GrammarSource& source, const Expression& choice, StateId from, StateId to);
  Status EmitBytes(const std::string& bytes, StateId from, StateId to);
  Status EmitCharacters(const CodePointSet& characters, StateId from, StateId to);
  Status EmitRepeat(const GrammarSource& source, const Expression& repeat, StateId from, StateId to);
  Status EmitAutomaton(const ByteAutomaton& automaton, StateId from, StateId to);
  // An edge out of `from`; none once the budget is spent.
  void Move(StateId from, uint8_t first, uint8_t last, StateId to);
  void Step(StateId from, StateId to);
  bool HoldEdge();

  GrammarBudget& budget_;
  BudgetHold memory_;
  std::vector<State> states_;
};

}  // namespace ringside
