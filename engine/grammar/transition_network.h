// A grammar compiled: a recursive transition network (Woods 1970) over bytes. Each rule has an automaton whose moves
// read bytes or call rules; steps over nothing are gone, and everything in it leads to an end. Immutable; any thread.
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
  /// Draws from the source's budget. kInvalidArgument if that does not suffice (`param` names the schema's keyword that
  /// it was spent on), if a rule can call itself without having read anything, or if no text matches.
  static Result<TransitionNetwork> Compile(const GrammarSource& source);

  size_t states() const { return states_.size() - 1; }
  std::span<const ByteMove> moves(StateId state) const {
    return std::span(moves_).subspan(states_[state].first_move,
                                     states_[state + 1].first_move - states_[state].first_move);
  }
  /// Calls of rules; a rule that matches the empty text is also skipped over.
  std::span<const RuleCall> calls(StateId state) const {
    return std::span(calls_).subspan(states_[state].first_call,
                                     states_[state + 1].first_call - states_[state].first_call);
  }
  /// The rule's text may end here.
  bool ends(StateId state) const { return states_[state].ends; }
  /// Nothing comes here but the end: who calls with this to come back to need not come back.
  bool only_ends(StateId state) const { return ends(state) && moves(state).empty() && calls(state).empty(); }
  StateId start(RuleId rule) const { return starts_[rule]; }
  RuleId start_rule() const { return start_rule_; }
  size_t rules() const { return starts_.size(); }
  /// The rule's place in an order in which every rule stands before those that it can call before it reads anything.
  uint32_t rank(RuleId rule) const { return ranks_[rule]; }

  /// Two states of one kind take the same texts of up to kKindBytes bytes, and leave their rule behind the same: as far
  /// as a token reaches they are one. (The characters of a string of bounded length are, but for its ends.)
  static constexpr int kKindBytes = 32;
  uint64_t kind(StateId state) const { return kinds_[state]; }

  /// Bytes that no move tells apart are of one class.
  uint8_t ClassOf(uint8_t byte) const { return class_of_[byte]; }
  size_t classes() const { return samples_.size(); }
  /// A byte of the class.
  uint8_t SampleOf(size_t byte_class) const { return samples_[byte_class]; }

  size_t bytes() const;

 private:
  friend class Flattener;
  /// Its moves and calls are those from here to the next state's.
  struct State {
    uint32_t first_move = 0, first_call = 0;
    bool ends = false;
  };

  Status RankRules(const GrammarSource& source);
  void FindClasses();
  void FindKinds();

  std::vector<State> states_;  // and one more
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
