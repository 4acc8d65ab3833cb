// A lazily built table of parse states: the places where a text so far can be in a transition network, each with its
// return stack. A state is a set of places, each with the set of its returns, shared between states (a graph-structured
// stack, Tomita 1985), so its size does not grow with the number of parses of the text. Equal sets are interned and
// transitions are cached, so the parse becomes table-driven. THREAD: one.
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

constexpr ParseState kDeadParse = 0;     // no matching text has this prefix
constexpr ReturnsId kReturnToEnd = 0;    // followed by the end of the text
constexpr ReturnsId kReturnUnknown = 1;  // the continuation is unknown

class ParseTable {
 public:
  /// REQUIRES: `network` outlives the table.
  explicit ParseTable(const TransitionNetwork& network);

  ParseState start() const { return start_; }
  /// The state of a text at this place alone, with unknown continuation after its rule.
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
  /// True if the text may end here.
  bool ends(ParseState state) const { return states_[state].ends; }
  /// True if the rule of an Alone state may end here; the continuation is then unknown.
  bool leaves(ParseState state) const { return states_[state].leaves; }

  /// Sets the number of places that Next may visit before it gives up.
  void SetWork(int64_t work) { work_ = work; }
  /// Charges work that the caller did.
  void Spend(int64_t work) { work_ -= work; }
  int64_t work_left() const { return work_; }
  /// True if Next gave up: its results since SetWork may be wrong, and are not cached.
  bool gave_up() const { return work_ < 0; }

  size_t bytes() const { return bytes_; }
  /// Bytes reachable from a state.
  size_t BytesOf(ParseState state) const;
  /// Drops all states but these, which are renumbered.
  void KeepOnly(std::span<ParseState* const> states);

 private:
  static constexpr ParseState kNotKnown = UINT32_MAX;
  struct State {
    size_t first = 0, count = 0;  // in places_
    size_t row = 0;               // in next_
    bool ends = false, leaves = false;
  };
  using Key = std::vector<uint64_t>;
  struct KeyHash {
    size_t operator()(const Key& key) const;
  };
  using Returns = std::vector<Place>;  // return places with their own returns

  void Clear();
  /// Marks all returns reachable from a state.
  void MarkReturns(ParseState state, std::vector<bool>* needed) const;
  ParseState Find(ParseState from, uint8_t byte);
  /// The state of the places in `arrived_` after all calls and returns.
  ParseState Settle();
  void Return(ReturnsId returns);
  void AddCalls(StateId state, ReturnsId returns);
  ReturnsId InternReturns(Returns returns);
  ParseState InternState(std::vector<Place> places);
  void Arrive(Place place);

  const TransitionNetwork& network_;
  std::vector<State> states_;
  std::vector<Place> places_;
  std::vector<ParseState> next_;  // rows of classes() entries
  std::vector<Returns> returns_;
  std::unordered_map<Key, ParseState, KeyHash> state_ids_;
  std::unordered_map<Key, ReturnsId, KeyHash> returns_ids_;
  ParseState start_ = 0;
  size_t bytes_ = 0;
  int64_t work_ = 0;
  // Scratch of the current step.
  std::vector<Place> arrived_;
  std::unordered_set<uint64_t> arrived_before_;
  std::unordered_set<ReturnsId> returned_;
  std::map<uint32_t, std::pair<RuleId, Returns>> called_;  // by rank
  bool ends_ = false, leaves_ = false;
};

}  // namespace ringside
