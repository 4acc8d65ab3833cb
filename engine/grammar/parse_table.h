// The states of a parse, made as they are met: where a text so far can stand in a transition network, with what waits
// to be gone on with behind it. A state is a set of places, each with the set of its returns, shared between states (a
// graph-structured stack, Tomita 1985), so its size does not grow with the number of ways to read the text. Equal sets
// have one number, and what a byte leads to is remembered: after a while it is a table. One thread at a time.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "engine/grammar/transition_network.h"

namespace ringside {

using ParseState = uint32_t;
using ReturnsId = uint32_t;

constexpr ParseState kDeadParse = 0;  // no text that begins like this matches
constexpr ReturnsId kToTheEnd = 0;    // behind it comes the end of the text
constexpr ReturnsId kToAnywhere = 1;  // nothing is known of what comes behind it

class ParseTable {
 public:
  /// `network` outlives the table.
  explicit ParseTable(const TransitionNetwork& network);

  ParseState start() const { return start_; }
  /// The state of a text that stands at this one place, with nothing known of what is to come behind its rule.
  ParseState Alone(StateId place);
  ParseState Next(ParseState from, uint8_t byte) {
    const ParseState known = next_[states_[from].row + network_.ClassOf(byte)];
    return known != kNotKnown ? known : Find(from, byte);
  }

  struct Place {
    StateId state = 0;
    ReturnsId returns = 0;
    friend auto operator<=>(const Place&, const Place&) = default;
  };
  std::span<const Place> places(ParseState state) const {
    return std::span(places_).subspan(states_[state].first, states_[state].count);
  }
  /// The text may end here.
  bool ends(ParseState state) const { return states_[state].ends; }
  /// The rule of an Alone state may end here, and then nobody knows.
  bool leaves(ParseState state) const { return states_[state].leaves; }

  /// How many places Next may look at from now on before it gives up.
  void SetWork(int64_t work) { work_ = work; }
  /// Charges work that the caller did.
  void Spend(int64_t work) { work_ -= work; }
  int64_t work_left() const { return work_; }
  /// It gave up: what Next has said since SetWork may be wrong, and is not remembered.
  bool gave_up() const { return work_ < 0; }

  size_t bytes() const { return bytes_; }
  /// Bytes reachable from a state.
  size_t BytesOf(ParseState state) const;
  /// Forgets all states but these, which get other numbers.
  void KeepOnly(std::span<ParseState* const> states);

 private:
  static constexpr ParseState kNotKnown = UINT32_MAX;
  struct State {
    size_t first = 0, count = 0;  // of places_
    size_t row = 0;               // of next_
    bool ends = false, leaves = false;
  };
  using Key = std::vector<uint64_t>;
  struct KeyHash {
    size_t operator()(const Key& key) const;
  };
  using Returns = std::vector<Place>;  // where to go on, and what comes behind that

  void Clear();
  /// Marks all returns reachable from a state.
  void MarkReturns(ParseState state, std::vector<bool>* needed) const;
  ParseState Find(ParseState from, uint8_t byte);
  /// The state after its moves have led to `arrived_`.
  ParseState Settle();
  void Return(ReturnsId returns);
  void AddCalls(StateId state, ReturnsId returns);
  ReturnsId InternReturns(Returns returns);
  ParseState InternState(std::vector<Place> places);
  void Arrive(Place place);

  const TransitionNetwork& network_;
  std::vector<State> states_;
  std::vector<Place> places_;
  std::vector<ParseState> next_;  // rows of classes() each
  std::vector<Returns> returns_;
  std::unordered_map<Key, ParseState, KeyHash> state_ids_;
  std::unordered_map<Key, ReturnsId, KeyHash> returns_ids_;
  ParseState start_ = 0;
  size_t bytes_ = 0;
  int64_t work_ = 0;
  // Of the step at hand.
  std::vector<Place> arrived_;
  std::unordered_set<uint64_t> arrived_before_;
  std::unordered_set<ReturnsId> returned_;
  std::map<uint32_t, std::pair<RuleId, Returns>> called_;  // by rank
  bool ends_ = false, leaves_ = false;
};

}  // namespace ringside
