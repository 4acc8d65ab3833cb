// A compiled grammar: a recursive transition network (Woods 1970) over bytes. Each rule has an automaton whose edges
// read bytes or call rules; there are no epsilon steps, and every state can reach an end. Immutable. THREAD: any.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "base/status.h"
#include "engine/grammar/grammar_source.h"
#include "engine/grammar/state_graph.h"

namespace ringside {

class TransitionNetwork {
 public:
  /// Charges the source's budget. ERRORS: kInvalidArgument if it is exhausted (`param`: the schema keyword at fault),
  /// if a rule can call itself before it reads a byte (left recursion), or if no text matches.
  static Result<TransitionNetwork> Compile(const GrammarSource& source);

  size_t states() const { return states_.size() - 1; }
  std::span<const ByteMove> moves(StateId state) const {
    return std::span(moves_).subspan(states_[state].first_move,
                                     states_[state + 1].first_move - states_[state].first_move);
  }
  /// Rule calls; a rule that matches the empty text can also be skipped.
  std::span<const RuleCall> calls(StateId state) const {
    return std::span(calls_).subspan(states_[state].first_call,
                                     states_[state + 1].first_call - states_[state].first_call);
  }
  /// True if the rule's text may end here.
  bool ends(StateId state) const { return states_[state].ends; }
  /// True if only the end is possible here: a call with this return state is a tail call.
  bool only_ends(StateId state) const { return ends(state) && moves(state).empty() && calls(state).empty(); }
  StateId start(RuleId rule) const { return starts_[rule]; }
  RuleId start_rule() const { return start_rule_; }
  size_t rules() const { return starts_.size(); }
  /// The rule's rank: lower than that of every rule that it can call before it reads a byte.
  uint32_t rank(RuleId rule) const { return ranks_[rule]; }

  /// Two states of one kind accept the same texts of up to kKindBytes bytes and leave their rule after the same ones:
  /// for a token they are equivalent. (Example: the states of a bounded string, except near its ends.)
  static constexpr int kKindBytes = 32;
  uint64_t kind(StateId state) const { return kinds_[state]; }

  /// Bytes that no move distinguishes share a class.
  uint8_t ClassOf(uint8_t byte) const { return class_of_[byte]; }
  size_t classes() const { return samples_.size(); }
  /// A byte of the class.
  uint8_t SampleOf(size_t byte_class) const { return samples_[byte_class]; }

  size_t bytes() const;

 private:
  friend class Flattener;
  /// Its edges end where the next state's begin.
  struct State {
    uint32_t first_move = 0, first_call = 0;
    bool ends = false;
  };

  Status RankRules(const GrammarSource& source);
  void FindClasses();
  void FindKinds();

  std::vector<State> states_;  // plus a sentinel
  std::vector<ByteMove> moves_;
  std::vector<RuleCall> calls_;
  std::vector<StateId> starts_;  // by rule
  std::vector<uint32_t> ranks_;  // by rule
  RuleId start_rule_ = 0;
  std::array<uint8_t, 256> class_of_{};
  std::vector<uint8_t> samples_;
  std::vector<uint64_t> kinds_;  // by state
};

}  // namespace ringside
