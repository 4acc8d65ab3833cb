#include "engine/grammar/byte_automaton.h"

#include <algorithm>
#include <array>
#include <map>
#include <set>
#include <utility>

#include "base/limits.h"

namespace ringside {
namespace {

constexpr StateId kNowhere = UINT32_MAX;

Status TooLarge() {
  return InvalidArgument("The grammar is too large: an automaton of it would have more than " +
                         std::to_string(limits::kMaxGrammarStates) + " states.");
}

// All states that are reached from these over nothing; sorted, each once.
std::vector<StateId> Closure(const StateGraph& graph, std::vector<StateId> states) {
  std::set<StateId> seen(states.begin(), states.end());
  while (!states.empty()) {
    const StateId state = states.back();
    states.pop_back();
    for (const StateId next : graph.states()[state].steps) {
      if (seen.insert(next).second) states.push_back(next);
    }
  }
  return {seen.begin(), seen.end()};
}

// The move of each byte; kNowhere = none.
using Row = std::array<StateId, 256>;

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

// Numbers keys in the order in which they are first met, and gives them to be looked at in that order.
template <class Key>
class Numbering {
 public:
  StateId Of(const Key& key) {
    const auto [at, added] = numbers_.try_emplace(key, static_cast<StateId>(order_.size()));
    if (added) order_.push_back(&at->first);
    return at->second;
  }
  size_t size() const { return order_.size(); }
  const Key& operator[](size_t i) const { return *order_[i]; }

 private:
  std::map<Key, StateId> numbers_;
  std::vector<const Key*> order_;
};

}  // namespace

Result<ByteAutomaton> ByteAutomaton::Of(const GrammarSource& source, ExpressionId expression) {
  StateGraph graph;
  const StateId from = graph.Add(), to = graph.Add();
  RETURN_IF_ERROR(graph.Emit(source, expression, from, to));
  ByteAutomaton out;
  Numbering<std::vector<StateId>> sets;
  sets.Of(Closure(graph, {from}));
  size_t work = 0;
  for (size_t i = 0; i < sets.size(); ++i) {
    const std::vector<StateId> set = sets[i];
    State& state = out.states_.emplace_back();
    std::array<std::vector<StateId>, 256> targets;
    for (const StateId s : set) {
      state.ends |= s == to;
      for (const ByteMove& move : graph.states()[s].moves) {
        for (int byte = move.first; byte <= move.last; ++byte) targets[static_cast<size_t>(byte)].push_back(move.to);
      }
    }
    Row row;
    row.fill(kNowhere);
    for (size_t byte = 0; byte < targets.size(); ++byte) {
      if (targets[byte].empty()) continue;
      if (byte > 0 && targets[byte] == targets[byte - 1]) {
        row[byte] = row[byte - 1];
        continue;
      }
      std::vector<StateId> closed = Closure(graph, targets[byte]);
      work += closed.size();
      row[byte] = sets.Of(closed);
    }
    state.moves = Moves(row);
    work += state.moves.size();
    if (sets.size() > static_cast<size_t>(limits::kMaxGrammarStates) ||
        work > static_cast<size_t>(limits::kMaxGrammarMoves)) {
      return TooLarge();
    }
  }
  out.Trim();
  return out;
}

Result<ByteAutomaton> ByteAutomaton::OfStrings(const std::vector<std::string>& strings) {
  ByteAutomaton out;
  out.states_.emplace_back();
  std::vector<std::map<uint8_t, StateId>> next(1);
  for (const std::string& string : strings) {
    StateId at = 0;
    for (const char c : string) {
      const auto [move, added] = next[at].try_emplace(static_cast<uint8_t>(c), static_cast<StateId>(next.size()));
      at = move->second;
      if (!added) continue;
      next.emplace_back();
      out.states_.emplace_back();
      if (next.size() > static_cast<size_t>(limits::kMaxGrammarStates)) return TooLarge();
    }
    out.states_[at].ends = true;
  }
  for (size_t i = 0; i < next.size(); ++i) {
    for (const auto& [byte, to] : next[i]) out.states_[i].moves.push_back({byte, byte, to});
  }
  return out;
}

Result<ByteAutomaton> ByteAutomaton::Combine(const ByteAutomaton& a, const ByteAutomaton& b, bool without) {
  ByteAutomaton out;
  Numbering<std::pair<StateId, StateId>> pairs;  // kNowhere: b accepts nothing from here on
  pairs.Of({0, 0});
  size_t moves = 0;
  for (size_t i = 0; i < pairs.size(); ++i) {
    const auto [p, q] = pairs[i];
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
        row[byte] = pairs.Of({move.to, b_row[byte]});
      }
    }
    state.moves = Moves(row);
    moves += state.moves.size();
    if (pairs.size() > static_cast<size_t>(limits::kMaxGrammarStates) ||
        moves > static_cast<size_t>(limits::kMaxGrammarMoves)) {
      return TooLarge();
    }
  }
  out.Trim();
  return out;
}

void ByteAutomaton::Trim() {
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
