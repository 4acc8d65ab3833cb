#include "engine/grammar/transition_network.h"

#include <algorithm>

#include "base/limits.h"

namespace ringside {
namespace {

// Each rule's states begin at starts[rule] and end at ends[rule].
struct Written {
  StateGraph graph;
  std::vector<StateId> starts, ends;
};

// Which states reach the end of their rule: over nothing alone, or in any way.
std::vector<bool> ReachesEnd(const Written& written, bool by_moves) {
  const auto& states = written.graph.states();
  struct Waiting {
    StateId caller, back;
  };
  std::vector<std::vector<StateId>> before(states.size());
  std::vector<std::vector<Waiting>> callers(written.starts.size());
  for (StateId s = 0; s < states.size(); ++s) {
    for (const StateId next : states[s].steps) before[next].push_back(s);
    if (by_moves) {
      for (const ByteMove& move : states[s].moves) before[move.to].push_back(s);
    }
    for (const RuleCall& call : states[s].calls) callers[call.rule].push_back({s, call.back});
  }
  std::vector<std::vector<std::pair<RuleId, StateId>>> calls_to(states.size());  // by the state to come back to
  for (RuleId rule = 0; rule < callers.size(); ++rule) {
    for (const Waiting& w : callers[rule]) calls_to[w.back].emplace_back(rule, w.caller);
  }
  std::vector<std::vector<RuleId>> begins(states.size());
  for (RuleId rule = 0; rule < written.starts.size(); ++rule) begins[written.starts[rule]].push_back(rule);

  std::vector<bool> reaches(states.size());
  std::vector<StateId> todo;
  const auto mark = [&](StateId s) {
    if (reaches[s]) return;
    reaches[s] = true;
    todo.push_back(s);
  };
  for (const StateId end : written.ends) mark(end);
  while (!todo.empty()) {
    const StateId state = todo.back();
    todo.pop_back();
    for (const StateId other : before[state]) mark(other);
    for (const auto& [rule, caller] : calls_to[state]) {
      if (reaches[written.starts[rule]]) mark(caller);
    }
    for (const RuleId rule : begins[state]) {
      for (const Waiting& w : callers[rule]) {
        if (reaches[w.back]) mark(w.caller);
      }
    }
  }
  return reaches;
}

Status TooLarge() { return InvalidArgument("The grammar is too large: too many ways lead on from its states."); }

// Takes the steps over nothing out: each state that is come to by a move, a call or a rule's beginning gets what it can
// reach over nothing, so far as it leads to an end.
class Flattener {
 public:
  Flattener(const Written& written, const std::vector<bool>& empty, const std::vector<bool>& lives)
      : written_(written), empty_(empty), lives_(lives), number_(written.graph.states().size(), kNone) {}

  Status Run(std::vector<TransitionNetwork::State>* out, std::vector<StateId>* starts) {
    for (const StateId start : written_.starts) starts->push_back(Number(start));
    std::vector<uint32_t> seen(number_.size(), 0);
    size_t ways = 0;
    for (size_t i = 0; i < order_.size(); ++i) {
      TransitionNetwork::State state;
      std::vector<StateId> todo = {order_[i]};
      const auto round = static_cast<uint32_t>(i + 1);
      seen[order_[i]] = round;
      while (!todo.empty()) {
        const StateId s = todo.back();
        todo.pop_back();
        ++ways;
        const auto pass = [&](StateId next) {
          if (!lives_[next] || seen[next] == round) return;
          seen[next] = round;
          todo.push_back(next);
        };
        const StateGraph::State& raw = written_.graph.states()[s];
        state.ends |= std::ranges::binary_search(written_.ends, s);
        for (const StateId next : raw.steps) pass(next);
        for (const ByteMove& move : raw.moves) {
          if (lives_[move.to]) state.moves.push_back({move.first, move.last, Number(move.to)});
        }
        for (const RuleCall& call : raw.calls) {
          if (!lives_[call.back] || !lives_[written_.starts[call.rule]]) continue;
          state.calls.push_back({call.rule, Number(call.back)});
          if (empty_[written_.starts[call.rule]]) pass(call.back);
        }
      }
      ways += state.moves.size() + state.calls.size();
      if (ways > 4 * static_cast<size_t>(limits::kMaxGrammarMoves)) return TooLarge();
      out->push_back(std::move(state));
    }
    return Status::Ok();
  }

 private:
  static constexpr StateId kNone = UINT32_MAX;

  StateId Number(StateId raw) {
    if (number_[raw] == kNone) {
      number_[raw] = static_cast<StateId>(order_.size());
      order_.push_back(raw);
    }
    return number_[raw];
  }

  const Written& written_;
  const std::vector<bool>&empty_, &lives_;
  std::vector<StateId> number_, order_;
};

}  // namespace

Result<TransitionNetwork> TransitionNetwork::Compile(const GrammarSource& source) {
  Written written;
  for (const GrammarSource::RuleBody& rule : source.rules()) {
    const StateId from = written.graph.Add(), to = written.graph.Add();
    written.starts.push_back(from);
    written.ends.push_back(to);  // ascending
    RETURN_IF_ERROR(written.graph.Emit(source, rule.body, from, to));
  }
  const std::vector<bool> empty = ReachesEnd(written, false), lives = ReachesEnd(written, true);
  if (!lives[written.starts[source.start()]]) return InvalidArgument("No text at all matches.");
  TransitionNetwork network;
  RETURN_IF_ERROR(Flattener(written, empty, lives).Run(&network.states_, &network.starts_));
  network.start_rule_ = source.start();
  RETURN_IF_ERROR(network.RankRules(source));
  network.FindClasses();
  network.FindKinds();
  return network;
}

// A depth-first walk over the calls that a rule can make before it reads anything; finished last = stands first.
Status TransitionNetwork::RankRules(const GrammarSource& source) {
  enum class Mark : uint8_t { kNew, kOpen, kDone };
  std::vector<Mark> marks(rules(), Mark::kNew);
  ranks_.assign(rules(), 0);
  auto next_rank = static_cast<uint32_t>(rules());
  struct Open {
    RuleId rule;
    size_t call;
  };
  for (RuleId first = 0; first < rules(); ++first) {
    if (marks[first] != Mark::kNew) continue;
    std::vector<Open> path = {{first, 0}};
    marks[first] = Mark::kOpen;
    while (!path.empty()) {
      Open& open = path.back();
      const std::vector<RuleCall>& calls = states_[starts_[open.rule]].calls;
      if (open.call == calls.size()) {
        marks[open.rule] = Mark::kDone;
        ranks_[open.rule] = --next_rank;
        path.pop_back();
        continue;
      }
      const RuleId called = calls[open.call++].rule;
      if (marks[called] == Mark::kOpen) {
        return InvalidArgument("The rule '" + source.rules()[called].name.substr(0, 256) +
                               "' calls itself before it has read anything (left recursion).");
      }
      if (marks[called] == Mark::kDone) continue;
      marks[called] = Mark::kOpen;
      path.push_back({called, 0});
    }
  }
  return Status::Ok();
}

void TransitionNetwork::FindClasses() {
  std::array<bool, 257> border{};
  for (const State& state : states_) {
    for (const ByteMove& move : state.moves) border[move.first] = border[move.last + 1] = true;
  }
  for (size_t byte = 0; byte < 256; ++byte) {
    if (byte == 0 || border[byte]) samples_.push_back(static_cast<uint8_t>(byte));
    class_of_[byte] = static_cast<uint8_t>(samples_.size() - 1);
  }
}

// By hashing what a state does and the kinds that it leads to, once for each byte.
void TransitionNetwork::FindKinds() {
  constexpr size_t kMostEdges = size_t{1} << 19;
  const auto mix = [](uint64_t hash, uint64_t part) {
    hash = (hash ^ part) * 0x9e3779b97f4a7c15u;
    return hash ^ (hash >> 29);
  };
  kinds_.assign(states_.size(), 0);
  size_t edges = 0;
  for (const State& state : states_) edges += state.moves.size() + state.calls.size();
  if (edges > kMostEdges) {  // each is one of its own
    for (StateId s = 0; s < states_.size(); ++s) kinds_[s] = s;
    return;
  }
  std::vector<uint64_t> next(states_.size());
  for (int byte = 0; byte < kKindBytes; ++byte) {
    for (StateId s = 0; s < states_.size(); ++s) {
      uint64_t hash = states_[s].ends ? 1 : 2;
      for (const ByteMove& move : states_[s].moves) {
        hash = mix(mix(hash, uint64_t{move.first} << 8 | move.last), kinds_[move.to]);
      }
      for (const RuleCall& call : states_[s].calls) hash = mix(mix(hash, ~uint64_t{call.rule}), kinds_[call.back]);
      next[s] = hash;
    }
    kinds_.swap(next);
  }
}

size_t TransitionNetwork::bytes() const {
  size_t sum = sizeof *this + (starts_.size() + ranks_.size()) * 4 + kinds_.size() * 8;
  for (const State& state : states_) {
    sum += sizeof state + state.moves.size() * sizeof(ByteMove) + state.calls.size() * sizeof(RuleCall);
  }
  return sum;
}

}  // namespace ringside
