#include "engine/grammar/byte_automaton.h"

#include <algorithm>
#include <array>
#include <map>
#include <string_view>
#include <tuple>
#include <utility>

namespace ringside {
namespace {

constexpr StateId kNowhere = UINT32_MAX;
constexpr int64_t kRowSteps = 32;  // steps to iterate over the 256 bytes

// Epsilon closures of sets of states.
class ClosureFinder {
 public:
  ClosureFinder(const StateGraph& graph, GrammarBudget& budget)
      : graph_(graph), budget_(budget), met_(graph.states().size()) {}

  /// Sorted and unique; incomplete if the budget is exhausted.
  std::vector<StateId> Of(std::vector<StateId> states) {
    ++round_;
    size_t looked = 0;
    std::erase_if(states, [&](StateId state) { return !Meet(state); });
    for (; looked < states.size(); ++looked) {
      const std::vector<StateId>& steps = graph_.states()[states[looked]].steps;
      if (!budget_.Spend(1 + static_cast<int64_t>(steps.size()))) break;
      for (const StateId next : steps) {
        if (Meet(next)) states.push_back(next);
      }
    }
    std::ranges::sort(states);
    return states;
  }

 private:
  bool Meet(StateId state) { return std::exchange(met_[state], round_) != round_; }

  const StateGraph& graph_;
  GrammarBudget& budget_;
  std::vector<uint32_t> met_;  // round of the last visit
  uint32_t round_ = 0;
};

// The target state of each byte; kNowhere = none.
using Row = std::array<StateId, 256>;

int64_t BytesOf(const ByteAutomaton::State& state) {
  return static_cast<int64_t>(sizeof state + 16 + 2 * state.moves.size() * sizeof(ByteMove));
}

std::vector<ByteMove> Moves(const Row& row) {
  std::vector<ByteMove> moves;
  for (size_t byte = 0; byte < row.size(); ++byte) {
    if (row[byte] == kNowhere) continue;
    const auto b = static_cast<uint8_t>(byte);
    if (!moves.empty() && moves.back().to == row[byte] && moves.back().last + 1 == b) {
      moves.back().last = b;
    } else {
      moves.push_back({b, b, row[byte]});
    }
  }
  return moves;
}

Row RowOf(const ByteAutomaton::State& state) {
  Row row;
  row.fill(kNowhere);
  for (const ByteMove& move : state.moves) std::fill(row.begin() + move.first, row.begin() + move.last + 1, move.to);
  return row;
}

constexpr int64_t kNodeBytes = 96;  // of a map
int64_t BytesOf(const std::vector<StateId>& set) { return kNodeBytes + 4 * static_cast<int64_t>(set.size()); }
template <class Tuple>
int64_t BytesOf(const Tuple&) {
  return kNodeBytes;
}

// Numbers keys in order of first occurrence and returns them in that order (a worklist).
template <class Key>
class Numbering {
 public:
  explicit Numbering(GrammarBudget& budget) : budget_(budget), memory_(budget) {}

  /// 0 once the budget is exhausted.
  StateId Of(const Key& key) {
    if (!budget_.Spend(kSteps + (BytesOf(key) - kNodeBytes) / 8)) return 0;
    const auto [at, added] = numbers_.try_emplace(key, static_cast<StateId>(order_.size()));
    if (!added || !budget_.Spend(kNewSteps)) return at->second;
    order_.push_back(&at->first);
    return memory_.Add(BytesOf(key)) ? at->second : 0;
  }
  size_t size() const { return order_.size(); }
  const Key& operator[](size_t i) const { return *order_[i]; }

 private:
  static constexpr int64_t kSteps = 4, kNewSteps = 32;  // cost of a look-up; of a new key with its state

  GrammarBudget& budget_;
  BudgetHold memory_;
  std::map<Key, StateId> numbers_;
  std::vector<const Key*> order_;
};

/// The target states of each byte from a set of states.
class SetMoves {
 public:
  /// Collects the moves of `set`; false if the budget is exhausted.
  bool Collect(const StateGraph& graph, const std::vector<StateId>& set, GrammarBudget& budget) {
    moves_.clear();
    std::array<bool, 257> border{};
    for (const StateId s : set) {
      const std::vector<ByteMove>& moves = graph.states()[s].moves;
      if (!budget.Spend(1 + static_cast<int64_t>(moves.size()))) return false;
      for (const ByteMove& move : moves) border[move.first] = border[move.last + 1u] = true;
      moves_.insert(moves_.end(), moves.begin(), moves.end());
    }
    std::array<uint16_t, 257> part_of{};  // a part contains no border
    firsts_.clear();
    for (uint16_t byte = 0; byte < 256; ++byte) {
      if (byte == 0 || border[byte]) firsts_.push_back(byte);
      part_of[byte] = static_cast<uint16_t>(firsts_.size() - 1);
    }
    firsts_.push_back(256);
    targets_.assign(firsts_.size() - 1, {});
    for (const ByteMove& move : moves_) {
      if (!budget.Spend(1 + part_of[move.last] - part_of[move.first])) return false;
      for (size_t part = part_of[move.first]; part <= part_of[move.last]; ++part) targets_[part].push_back(move.to);
    }
    return budget.Spend(kRowSteps);
  }

  size_t parts() const { return targets_.size(); }
  std::vector<StateId>& targets(size_t part) { return targets_[part]; }
  void Fill(size_t part, StateId to, Row* row) const {
    std::fill(row->begin() + firsts_[part], row->begin() + firsts_[part + 1], to);
  }

 private:
  std::vector<ByteMove> moves_;
  std::vector<uint16_t> firsts_;  // first byte of each part, then 256
  std::vector<std::vector<StateId>> targets_;
};

}  // namespace

Result<ByteAutomaton> ByteAutomaton::Of(const GrammarSource& source, ExpressionId expression) {
  GrammarBudget& budget = source.budget();
  StateGraph graph(budget);
  const StateId from = graph.Add(), to = graph.Add();
  RETURN_IF_ERROR(graph.Emit(source, expression, from, to));
  ByteAutomaton out;
  BudgetHold memory(budget);
  ClosureFinder closures(graph, budget);
  Numbering<std::vector<StateId>> sets(budget);
  sets.Of(closures.Of({from}));
  SetMoves moves;
  for (size_t i = 0; i < sets.size(); ++i) {
    const std::vector<StateId> set = sets[i];
    if (!moves.Collect(graph, set, budget)) return budget.status();
    State& state = out.states_.emplace_back();
    state.ends = std::ranges::binary_search(set, to);
    Row row;
    row.fill(kNowhere);
    for (size_t part = 0; part < moves.parts(); ++part) {
      if (moves.targets(part).empty()) continue;
      moves.Fill(part, sets.Of(closures.Of(std::move(moves.targets(part)))), &row);
      if (!budget.ok()) return budget.status();
    }
    state.moves = Moves(row);
    if (!memory.Add(BytesOf(state))) return budget.status();
  }
  RETURN_IF_ERROR(out.Trim(budget));
  return out;
}

Result<ByteAutomaton> ByteAutomaton::OfStrings(std::vector<std::string> strings, GrammarBudget& budget) {
  size_t bytes = 0;
  for (const std::string& string : strings) bytes += string.size() + 4;
  if (!budget.Spend(static_cast<int64_t>(2 * bytes))) return budget.status();
  std::ranges::sort(strings);
  ByteAutomaton out;
  out.states_.emplace_back();
  std::vector<StateId> path = {0};  // states along the last string
  std::string_view last;
  for (const std::string& string : strings) {
    const auto common = static_cast<size_t>(std::ranges::mismatch(last, string).in1 - last.begin());
    path.resize(common + 1);
    for (size_t i = common; i < string.size(); ++i) {
      const auto byte = static_cast<uint8_t>(string[i]);
      const auto next = static_cast<StateId>(out.states_.size());
      if (!budget.Hold(sizeof(State) + 32)) return budget.status();
      out.states_[path.back()].moves.push_back({byte, byte, next});
      out.states_.emplace_back();
      path.push_back(next);
    }
    out.states_[path.back()].ends = true;
    last = string;
  }
  return out;
}

Result<ByteAutomaton> ByteAutomaton::Combine(const ByteAutomaton& a, const ByteAutomaton& b, bool without,
                                             GrammarBudget& budget) {
  ByteAutomaton out;
  BudgetHold memory(budget);
  Numbering<std::pair<StateId, StateId>> pairs(budget);  // kNowhere: `b` accepts nothing from here on
  pairs.Of({0, 0});
  for (size_t i = 0; i < pairs.size(); ++i) {
    const auto [p, q] = pairs[i];
    if (!budget.Spend(2 * kRowSteps)) return budget.status();
    State& state = out.states_.emplace_back();
    const bool b_ends = q != kNowhere && b.states_[q].ends;
    state.ends = a.states_[p].ends && b_ends != without;
    Row b_row;
    b_row.fill(kNowhere);
    if (q != kNowhere) b_row = RowOf(b.states_[q]);
    Row row;
    row.fill(kNowhere);
    for (const ByteMove& move : a.states_[p].moves) {
      for (size_t byte = move.first; byte <= move.last; ++byte) {
        if (!without && b_row[byte] == kNowhere) continue;
        const bool as_before = byte > move.first && row[byte - 1] != kNowhere && b_row[byte] == b_row[byte - 1];
        row[byte] = as_before ? row[byte - 1] : pairs.Of({move.to, b_row[byte]});
      }
      if (!budget.ok()) return budget.status();
    }
    state.moves = Moves(row);
    if (!memory.Add(BytesOf(state))) return budget.status();
  }
  RETURN_IF_ERROR(out.Trim(budget));
  return out;
}

Result<ByteAutomaton> ByteAutomaton::Counted(const ByteAutomaton& a, const ByteAutomaton& unit, uint32_t least,
                                             uint32_t most, GrammarBudget& budget) {
  ByteAutomaton out;
  BudgetHold memory(budget);
  const uint32_t highest = most == kUnbounded ? least : most;  // higher counts are equivalent
  // State in `a`, state in the current unit; whole units so far.
  Numbering<std::tuple<StateId, StateId, uint32_t>> places(budget);
  places.Of({0, 0, 0});
  for (size_t i = 0; i < places.size(); ++i) {
    const auto [in_a, in_unit, count] = places[i];
    if (!budget.Spend(2 * kRowSteps)) return budget.status();
    State& state = out.states_.emplace_back();
    state.ends = a.states_[in_a].ends && in_unit == 0 && count >= least;
    Row row;
    row.fill(kNowhere);
    for (const ByteMove& move : a.states_[in_a].moves) {
      for (const ByteMove& step : unit.states_[in_unit].moves) {
        const int first = std::max(move.first, step.first), last = std::min(move.last, step.last);
        const bool whole = unit.states_[step.to].ends;
        if (first > last || (whole && count == highest && most != kUnbounded)) continue;
        const StateId to =
            whole ? places.Of({move.to, 0, std::min(count + 1, highest)}) : places.Of({move.to, step.to, count});
        std::fill(row.begin() + first, row.begin() + last + 1, to);
      }
      if (!budget.Spend(std::ssize(unit.states_[in_unit].moves))) return budget.status();
    }
    state.moves = Moves(row);
    if (!memory.Add(BytesOf(state))) return budget.status();
  }
  RETURN_IF_ERROR(out.Trim(budget));
  return out;
}

Status ByteAutomaton::Trim(GrammarBudget& budget) {
  int64_t edges = 0;
  for (const State& state : states_) edges += std::ssize(state.moves);
  const auto count_before = std::ssize(states_);
  BudgetHold memory(budget);
  if (!budget.Spend(2 * count_before + 2 * edges) || !memory.Add(48 * count_before + 8 * edges) ||
      !budget.Hold(count_before * static_cast<int64_t>(sizeof(State) + 16) +
                   edges * static_cast<int64_t>(sizeof(ByteMove)))) {
    return budget.status();
  }
  std::vector<std::vector<StateId>> before(states_.size());
  std::vector<StateId> todo;
  std::vector<bool> lives(states_.size());
  for (StateId i = 0; i < states_.size(); ++i) {
    for (const ByteMove& move : states_[i].moves) before[move.to].push_back(i);
    if (!states_[i].ends) continue;
    lives[i] = true;
    todo.push_back(i);
  }
  while (!todo.empty()) {
    const StateId state = todo.back();
    todo.pop_back();
    for (const StateId other : before[state]) {
      if (lives[other]) continue;
      lives[other] = true;
      todo.push_back(other);
    }
  }
  lives[0] = true;
  std::vector<StateId> place(states_.size(), kNowhere);
  StateId count = 0;
  for (size_t i = 0; i < states_.size(); ++i) {
    if (lives[i]) place[i] = count++;
  }
  std::vector<State> kept;
  for (size_t i = 0; i < states_.size(); ++i) {
    if (!lives[i]) continue;
    State& state = kept.emplace_back(std::move(states_[i]));
    std::erase_if(state.moves, [&](const ByteMove& move) { return place[move.to] == kNowhere; });
    for (ByteMove& move : state.moves) move.to = place[move.to];
  }
  states_ = std::move(kept);
  return Status::Ok();
}

bool ByteAutomaton::Accepts(std::string_view text) const {
  StateId at = 0;
  for (const char c : text) {
    const auto byte = static_cast<uint8_t>(c);
    const auto& moves = states_[at].moves;
    const auto move = std::ranges::find_if(moves, [&](const ByteMove& m) { return m.first <= byte && byte <= m.last; });
    if (move == moves.end()) return false;
    at = move->to;
  }
  return states_[at].ends;
}

}  // namespace ringside
