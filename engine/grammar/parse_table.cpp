#include "engine/grammar/parse_table.h"

#include <algorithm>

#include "base/limits.h"

namespace ringside {
namespace {

constexpr StateId kNoState = UINT32_MAX;  // marks the two kinds of returns that leave the network

// Approximate bytes of an entry, including the hash table's overhead.
constexpr size_t kReturnsBytes = 128, kParseStateBytes = 160, kPlaceBytes = 20;

uint64_t Packed(const ParseTable::Place& place) { return uint64_t{place.state} << 32 | place.returns; }

}  // namespace

size_t ParseTable::KeyHash::operator()(const Key& key) const {
  uint64_t hash = key.size();
  for (const uint64_t part : key) {
    hash = (hash ^ part) * 0x9e3779b97f4a7c15u;
    hash ^= hash >> 32;
  }
  return hash;
}

ParseTable::ParseTable(const TransitionNetwork& network) : network_(network) { Clear(); }

void ParseTable::Clear() {
  states_.clear();
  places_.clear();
  next_.clear();
  returns_.clear();
  state_ids_.clear();
  returns_ids_.clear();
  bytes_ = 0;
  work_ = limits::kMaxGrammarWorkAtOnce;
  InternReturns({{kNoState, kReturnToEnd}});
  InternReturns({{kNoState, kReturnUnknown}});
  ends_ = leaves_ = false;
  InternState({});  // kDeadParse
  const StateId place = network_.start(network_.start_rule());
  arrived_.clear();
  called_.clear();
  called_[network_.rank(network_.start_rule())] = {network_.start_rule(), returns_[kReturnToEnd]};
  ends_ = network_.ends(place);
  start_ = Settle();
}

void ParseTable::MarkReturns(ParseState state, std::vector<bool>* needed) const {
  std::vector<ReturnsId> todo;
  const auto mark = [&](ReturnsId id) {
    if ((*needed)[id]) return;
    (*needed)[id] = true;
    todo.push_back(id);
  };
  for (const Place& place : places(state)) mark(place.returns);
  while (!todo.empty()) {
    const ReturnsId id = todo.back();
    todo.pop_back();
    for (const Place& back : returns_[id]) {
      if (back.state != kNoState) mark(back.returns);
    }
  }
}

size_t ParseTable::BytesOf(ParseState state) const {
  std::vector<bool> needed(returns_.size());
  MarkReturns(state, &needed);
  size_t bytes = kParseStateBytes + kPlaceBytes * states_[state].count;
  for (ReturnsId id = 0; id < returns_.size(); ++id) {
    if (needed[id]) bytes += kReturnsBytes + kPlaceBytes * returns_[id].size();
  }
  return bytes;
}

void ParseTable::KeepOnly(std::span<ParseState* const> states) {
  std::vector<bool> needed(returns_.size());
  for (const ParseState* state : states) MarkReturns(*state, &needed);
  const std::vector<State> old_states = std::move(states_);
  const std::vector<Place> old_places = std::move(places_);
  const std::vector<Returns> old_returns = std::move(returns_);
  Clear();
  work_ = INT64_MAX;
  // A set of returns refers only to sets with smaller numbers.
  std::vector<ReturnsId> numbers(old_returns.size());
  const auto renumber = [&](std::vector<Place> places) {
    for (Place& place : places) {
      if (place.state != kNoState) place.returns = numbers[place.returns];
    }
    return places;
  };
  for (ReturnsId id = 0; id < old_returns.size(); ++id) {
    if (needed[id]) numbers[id] = InternReturns(renumber(old_returns[id]));
  }
  for (ParseState* state : states) {
    const State& old = old_states[*state];
    const auto first = old_places.begin() + static_cast<std::ptrdiff_t>(old.first);
    ends_ = old.ends, leaves_ = old.leaves;
    *state = InternState(renumber({first, first + static_cast<std::ptrdiff_t>(old.count)}));
  }
}

ParseState ParseTable::Alone(StateId place) {
  ends_ = leaves_ = false;
  return InternState({{place, kReturnUnknown}});
}

void ParseTable::Arrive(Place place) {
  if (arrived_before_.insert(Packed(place)).second) arrived_.push_back(place);
}

ParseState ParseTable::Find(ParseState from, uint8_t byte) {
  if (work_ < 0) return kDeadParse;
  arrived_.clear();
  arrived_before_.clear();
  returned_.clear();
  called_.clear();
  ends_ = leaves_ = false;
  for (const Place& place : places(from)) {
    const std::span<const ByteMove> moves = network_.moves(place.state);
    work_ -= static_cast<int64_t>(moves.size());
    for (const ByteMove& move : moves) {
      if (move.first <= byte && byte <= move.last) Arrive({move.to, place.returns});
    }
  }
  const ParseState found = Settle();
  if (work_ < 0) return kDeadParse;
  next_[states_[from].row + network_.ClassOf(byte)] = found;
  return found;
}

ParseState ParseTable::Settle() {
  for (size_t i = 0; i < arrived_.size() && work_ >= 0; ++i) {
    --work_;
    const Place place = arrived_[i];
    if (network_.ends(place.state)) Return(place.returns);
    AddCalls(place.state, place.returns);
  }
  std::vector<Place> places;
  for (const Place& place : arrived_) {
    if (!network_.moves(place.state).empty()) places.push_back(place);
  }
  // Process rules by rank: all calls of a rule are known when it is processed.
  while (!called_.empty() && work_ >= 0) {
    auto [rule, returns] = std::move(called_.extract(called_.begin()).mapped());
    work_ -= 1 + static_cast<int64_t>(returns.size());
    const StateId start = network_.start(rule);
    const ReturnsId id = InternReturns(std::move(returns));
    if (!network_.moves(start).empty()) places.push_back({start, id});
    AddCalls(start, id);
  }
  if (work_ < 0) return kDeadParse;
  return InternState(std::move(places));
}

void ParseTable::Return(ReturnsId returns) {
  if (!returned_.insert(returns).second) return;
  work_ -= static_cast<int64_t>(returns_[returns].size());
  for (const Place& back : returns_[returns]) {
    if (back.state != kNoState) {
      Arrive(back);
    } else if (back.returns == kReturnToEnd) {
      ends_ = true;
    } else {
      leaves_ = true;
    }
  }
}

void ParseTable::AddCalls(StateId state, ReturnsId returns) {
  for (const RuleCall& call : network_.calls(state)) {
    auto& [rule, backs] = called_[network_.rank(call.rule)];
    rule = call.rule;
    if (network_.only_ends(call.back)) {  // tail call: its return is the caller's
      const Returns& own = returns_[returns];
      backs.insert(backs.end(), own.begin(), own.end());
      work_ -= static_cast<int64_t>(own.size());
    } else {
      backs.push_back({call.back, returns});
      --work_;
    }
  }
}

ReturnsId ParseTable::InternReturns(Returns returns) {
  std::ranges::sort(returns);
  const auto repeated = std::ranges::unique(returns);
  returns.erase(repeated.begin(), repeated.end());
  Key key;
  for (const Place& back : returns) key.push_back(Packed(back));
  const auto [at, added] = returns_ids_.try_emplace(std::move(key), static_cast<ReturnsId>(returns_.size()));
  if (added) {
    bytes_ += kReturnsBytes + kPlaceBytes * returns.size();
    returns_.push_back(std::move(returns));
  }
  return at->second;
}

ParseState ParseTable::InternState(std::vector<Place> places) {
  std::ranges::sort(places);
  // Merge the returns of equal places.
  size_t used = 0;
  for (size_t i = 0; i < places.size();) {
    size_t end = i + 1;
    while (end < places.size() && places[end].state == places[i].state) ++end;
    Place place = places[i];
    if (end > i + 1) {
      Returns all;
      for (size_t j = i; j < end; ++j) {
        const Returns& some = returns_[places[j].returns];
        all.insert(all.end(), some.begin(), some.end());
      }
      work_ -= static_cast<int64_t>(all.size());
      place.returns = InternReturns(std::move(all));
    }
    places[used++] = place;
    i = end;
  }
  places.resize(used);
  Key key;
  for (const Place& place : places) key.push_back(Packed(place));
  key.push_back((ends_ ? 1u : 0u) | (leaves_ ? 2u : 0u));
  const auto [at, added] = state_ids_.try_emplace(std::move(key), static_cast<ParseState>(states_.size()));
  if (added) {
    states_.push_back({places_.size(), places.size(), next_.size(), ends_, leaves_});
    places_.insert(places_.end(), places.begin(), places.end());
    next_.resize(next_.size() + network_.classes(), kNotKnown);
    bytes_ += kParseStateBytes + kPlaceBytes * places.size() + 4 * network_.classes();
    if (places.empty()) {  // dead for every byte
      std::fill(next_.end() - static_cast<std::ptrdiff_t>(network_.classes()), next_.end(), kDeadParse);
    }
  }
  return at->second;
}

}  // namespace ringside
