// The nondeterministic automaton of an expression (Thompson 1968): moves over bytes, epsilon steps, rule calls. Input
// of ByteAutomaton and TransitionNetwork. THREAD: one.
#pragma once

#include <cstdint>
#include <vector>

#include "base/status.h"
#include "engine/grammar/grammar_source.h"

namespace ringside {

using StateId = uint32_t;

/// Reads one byte in [first, last].
struct ByteMove {
  uint8_t first = 0, last = 0;
  StateId to = 0;
  friend bool operator==(const ByteMove&, const ByteMove&) = default;
};

/// Reads a text of the rule, then continues at `back`.
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

  /// 0, and nothing is added, once the budget is exhausted.
  StateId Add();
  /// Connects `from` to `to` by exactly the texts of the expression. Both may have other edges. ERRORS: the budget's
  /// status, with the keyword that exhausted it as `param`; the graph is unusable then.
  Status Emit(const GrammarSource& source, ExpressionId expression, StateId from, StateId to);

  const std::vector<State>& states() const { return states_; }

 private:
  Status EmitParts(const GrammarSource& source, const Expression& expression, StateId from, StateId to);
  Status EmitChoice(const GrammarSource& source, const Expression& choice, StateId from, StateId to);
  Status EmitBytes(const std::string& bytes, StateId from, StateId to);
  Status EmitCharacters(const CodePointSet& characters, StateId from, StateId to);
  Status EmitRepeat(const GrammarSource& source, const Expression& repeat, StateId from, StateId to);
  Status EmitAutomaton(const ByteAutomaton& automaton, StateId from, StateId to);
  // Add an edge out of `from`; no effect once the budget is exhausted.
  void Move(StateId from, uint8_t first, uint8_t last, StateId to);
  void Step(StateId from, StateId to);
  bool HoldEdge();

  GrammarBudget& budget_;
  BudgetHold memory_;
  std::vector<State> states_;
};

}  // namespace ringside
