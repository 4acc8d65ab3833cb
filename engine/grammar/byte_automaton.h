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

  /// What the expression matches; it must name no rules. kInvalidArgument if it would have too many states
  /// (limits::kMaxGrammarStates, as everywhere here).
  static Result<ByteAutomaton> Of(const GrammarSource& source, ExpressionId expression);
  static Result<ByteAutomaton> OfStrings(const std::vector<std::string>& strings);
  /// What both accept.
  static Result<ByteAutomaton> And(const ByteAutomaton& a, const ByteAutomaton& b) { return Combine(a, b, false); }
  /// What `a` accepts and `b` does not.
  static Result<ByteAutomaton> Without(const ByteAutomaton& a, const ByteAutomaton& b) { return Combine(a, b, true); }

  /// State 0 is where it begins. From each a text can still be accepted, but of an empty language's only state.
  const std::vector<State>& states() const { return states_; }
  bool empty() const { return states_.size() == 1 && !states_[0].ends && states_[0].moves.empty(); }
  bool Accepts(std::string_view text) const;

 private:
  static Result<ByteAutomaton> Combine(const ByteAutomaton& a, const ByteAutomaton& b, bool without);
  /// Drops what leads nowhere.
  void Trim();

  std::vector<State> states_;
};

}  // namespace ringside
