// A grammar compiled: a recursive transition network (Woods 1970) over bytes. Each rule has an automaton whose moves
// read bytes or call rules; steps over nothing are gone, and everything in it leads to an end. Immutable; any thread.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "base/status.h"
#include "engine/grammar/grammar_source.h"
#include "engine/grammar/state_graph.h"

namespace ringside {

class TransitionNetwork {
 public:
  struct State {
    std::vector<ByteMove> moves;
    std::vector<RuleCall> calls;  // of what is not the empty text: what may be empty is passed over besides
    bool ends = false;            // the rule's text may end here
    /// Nothing comes here but the end: who calls with this to come back to need not come back.
    bool only_ends() const { return ends && moves.empty() && calls.empty(); }
  };

  /// kInvalidArgument if it is too large (base/limits.h), if a rule can call itself without having read anything, or if
  /// no text matches.
  static Result<TransitionNetwork> Compile(const GrammarSource& source);

  const std::vector<State>& states() const { return states_; }
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
  Status RankRules(const GrammarSource& source);
  void FindClasses();
  void FindKinds();

  std::vector<State> states_;
  std::vector<StateId> starts_;  // by rule
  std::vector<uint32_t> ranks_;  // by rule
  RuleId start_rule_ = 0;
  std::array<uint8_t, 256> class_of_{};
  std::vector<uint8_t> samples_;
  std::vector<uint64_t> kinds_;  // by state
};

}  // namespace ringside
