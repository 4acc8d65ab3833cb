#include "engine/grammar/transition_network.h"

#include <algorithm>
#include <string>

#include "base/limits.h"

namespace ringside {
namespace {

constexpr size_t kMaxKindEdges = size_t{1} << 19;

// The states of all rules; a rule starts at starts[rule] and ends at ends[rule].
struct Written {
  explicit Written(GrammarBudget& budget) : graph(budget) {}
  StateGraph graph;
  std::vector<StateId> starts, ends;
};

/// Lists of states by state, in two arrays (CSR).
class StateLists {
 public:
  explicit StateLists(size_t states) : first_(states + 1) {}
  /// Call for every pair twice, in the same order: first to count, then after Counted() to store.
  void Add(StateId key, StateId value) { counted_ ? void(values_[--first_[key]] = value) : void(++first_[key]); }
  void Counted() {
    for (size_t i = 1; i < first_.size(); ++i) first_[i] += first_[i - 1];
    values_.resize(first_.back());
    counted_ = true;
  }
  std::span<const StateId> Of(StateId key) const {
    return std::span(values_).subspan(first_[key], first_[key + 1] - first_[key]);
  }

 private:
  std::vector<uint32_t> first_;
  std::vector<StateId> values_;
  bool counted_ = false;
};

// States that reach the end of their rule: by epsilon steps alone, or by any path.
class EndFinder {
 public:
  EndFinder(const Written& written, bool by_moves)
      : written_(written),
        before_(written.graph.states().size()),
        calls_to_(written.graph.states().size()),
        begins_(written.graph.states().size()),
        callers_(written.starts.size()),
        reaches_(written.graph.states().size()) {
    for (const bool counted : {false, true}) {
      if (counted) Counted();
      Fill(by_moves);
    }
  }

  std::vector<bool> Find() {
    for (const StateId end : written_.ends) Mark(end);
    while (!todo_.empty()) {
      const StateId state = todo_.back();
      todo_.pop_back();
      for (const StateId other : before_.Of(state)) Mark(other);
      for (const uint32_t call : calls_to_.Of(state)) {
        if (reaches_[written_.starts[calls_[call].rule]]) Mark(calls_[call].caller);
      }
      for (const RuleId rule : begins_.Of(state)) {
        for (const uint32_t call : callers_.Of(rule)) {
          if (reaches_[calls_[call].back]) Mark(calls_[call].caller);
        }
      }
    }
    return std::move(reaches_);
  }

 private:
  struct Call {
    RuleId rule;
    StateId caller, back;
  };

  void Fill(bool by_moves) {
    calls_.clear();
    const auto& states = written_.graph.states();
    for (StateId s = 0; s < states.size(); ++s) {
      for (const StateId next : states[s].steps) before_.Add(next, s);
      for (size_t i = 0; by_moves && i < states[s].moves.size(); ++i) before_.Add(states[s].moves[i].to, s);
      for (const RuleCall& call : states[s].calls) {
        const auto number = static_cast<uint32_t>(calls_.size());
        callers_.Add(call.rule, number);
        calls_to_.Add(call.back, number);
        calls_.push_back({call.rule, s, call.back});
      }
    }
    for (RuleId rule = 0; rule < written_.starts.size(); ++rule) begins_.Add(written_.starts[rule], rule);
  }
  void Counted() {
    for (StateLists* lists : {&before_, &calls_to_, &begins_, &callers_}) lists->Counted();
  }
  void Mark(StateId state) {
    if (reaches_[state]) return;
    reaches_[state] = true;
    todo_.push_back(state);
  }

  const Written& written_;
  StateLists before_;    // predecessors by state
  StateLists calls_to_;  // calls by return state
  StateLists begins_;    // rules by first state
  StateLists callers_;   // calls by rule
  std::vector<Call> calls_;
  std::vector<bool> reaches_;
  std::vector<StateId> todo_;
};

Result<std::vector<bool>> ReachesEnd(const Written& written, bool by_moves, GrammarBudget& budget) {
  int64_t edges = 0;
  for (const StateGraph::State& state : written.graph.states()) {
    edges += std::ssize(state.steps) + std::ssize(state.moves) + 3 * std::ssize(state.calls);
  }
  const auto states = std::ssize(written.graph.states());
  BudgetHold memory(budget);
  if (!budget.Spend(states + edges) || !memory.Add(24 * states + 8 * edges)) return budget.status();
  return EndFinder(written, by_moves).Find();
}

/// Names the schema path, or the rule, that exhausted the budget.
Status InRule(const Status& status, const GrammarSource::RuleBody& rule) {
  const std::string place = status.param().empty() && rule.of_schema ? rule.name : status.param();
  std::string where;
  if (!place.empty()) {
    where = "Invalid schema at '" + place + "': ";
  } else if (!rule.name.empty()) {
    where = "grammar, rule '" + rule.name.substr(0, limits::kMaxQuotedRuleBytes) + "': ";
  }
  return {status.code(), where + status.message(), place, status.reason()};
}

}  // namespace

// Removes epsilon steps: each target of a move, a call or a rule's start gets the edges of its epsilon closure,
// restricted to live states.
class Flattener {
 public:
  Flattener(const Written& written, const std::vector<bool>& empty, const std::vector<bool>& lives,
            GrammarBudget& budget, TransitionNetwork* network)
      : written_(written),
        empty_(empty),
        lives_(lives),
        budget_(budget),
        network_(*network),
        number_(written.graph.states().size(), kNone),
        seen_(written.graph.states().size()) {}

  Status Run() {
    for (size_t rule = 0; rule < written_.starts.size(); ++rule) {
      network_.starts_.push_back(Number(written_.starts[rule]));
      RETURN_IF_ERROR(Drain());
    }
    network_.states_.push_back(Next());
    network_.states_.shrink_to_fit();
    network_.moves_.shrink_to_fit();
    network_.calls_.shrink_to_fit();
    return Status::Ok();
  }

 private:
  static constexpr StateId kNone = UINT32_MAX;

  TransitionNetwork::State Next() const {
    return {static_cast<uint32_t>(network_.moves_.size()), static_cast<uint32_t>(network_.calls_.size())};
  }

  /// Emits all numbered states.
  Status Drain() {
    while (network_.states_.size() < order_.size()) {
      const StateId first = order_[network_.states_.size()];
      network_.states_.push_back(Next());
      todo_ = {first};
      seen_[first] = ++round_;
      while (!todo_.empty()) {
        const StateId s = todo_.back();
        todo_.pop_back();
        if (!AddOutgoingEdges(s)) return budget_.status();
      }
    }
    return Status::Ok();
  }

  bool AddOutgoingEdges(StateId s) {
    const StateGraph::State& raw = written_.graph.states()[s];
    const auto kept = static_cast<int64_t>(raw.moves.size() + raw.calls.size());
    if (!budget_.Spend(2 + std::ssize(raw.steps) + kept) || !budget_.Hold(kept * kOutgoingEdgeBytes)) return false;
    network_.states_.back().ends |= std::ranges::binary_search(written_.ends, s);
    for (const StateId next : raw.steps) Pass(next);
    for (const ByteMove& move : raw.moves) {
      if (lives_[move.to]) network_.moves_.push_back({move.first, move.last, Number(move.to)});
    }
    for (const RuleCall& call : raw.calls) {
      if (!lives_[call.back] || !lives_[written_.starts[call.rule]]) continue;
      network_.calls_.push_back({call.rule, Number(call.back)});
      if (empty_[written_.starts[call.rule]]) Pass(call.back);
    }
    return true;
  }

  void Pass(StateId next) {
    if (!lives_[next] || seen_[next] == round_) return;
    seen_[next] = round_;
    todo_.push_back(next);
  }

  StateId Number(StateId raw) {
    if (number_[raw] == kNone) {
      number_[raw] = static_cast<StateId>(order_.size());
      order_.push_back(raw);
    }
    return number_[raw];
  }

  static constexpr int64_t kOutgoingEdgeBytes = 2 * sizeof(ByteMove);  // a vector may be half empty

  const Written& written_;
  const std::vector<bool>&empty_, &lives_;
  GrammarBudget& budget_;
  TransitionNetwork& network_;
  std::vector<StateId> number_, order_, todo_;
  std::vector<uint32_t> seen_;  // round of the last visit
  uint32_t round_ = 0;
};

Result<TransitionNetwork> TransitionNetwork::Compile(const GrammarSource& source) {
  GrammarBudget& budget = source.budget();
  Written written(budget);
  for (const GrammarSource::RuleBody& rule : source.rules()) {
    const StateId from = written.graph.Add(), to = written.graph.Add();
    written.starts.push_back(from);
    written.ends.push_back(to);  // ascending
    if (Status status = written.graph.Emit(source, rule.body, from, to); !status.ok()) return InRule(status, rule);
  }
  ASSIGN_OR_RETURN(const std::vector<bool> empty, ReachesEnd(written, false, budget));
  ASSIGN_OR_RETURN(const std::vector<bool> lives, ReachesEnd(written, true, budget));
  if (!lives[written.starts[source.start()]]) return InvalidArgument("The grammar matches no text.");
  TransitionNetwork network;
  const auto raw = std::ssize(written.graph.states());
  if (!budget.Hold(raw * static_cast<int64_t>(sizeof(State) + 2 * sizeof(uint64_t) + 16))) return budget.status();
  RETURN_IF_ERROR(Flattener(written, empty, lives, budget, &network).Run());
  network.start_rule_ = source.start();
  RETURN_IF_ERROR(network.RankRules(source));
  network.FindClasses();
  const auto edges = static_cast<int64_t>(network.moves_.size() + network.calls_.size());
  if (!budget.Spend(raw + edges + std::min<int64_t>(edges, kMaxKindEdges) * 2)) return budget.status();
  network.FindKinds();
  return network;
}

// A depth-first walk over the calls that a rule can make before it reads a byte; ranks are the reverse finishing order.
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
      const std::span<const RuleCall> calls = this->calls(starts_[open.rule]);
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
  for (const ByteMove& move : moves_) border[move.first] = border[move.last + 1] = true;
  for (size_t byte = 0; byte < 256; ++byte) {
    if (byte == 0 || border[byte]) samples_.push_back(static_cast<uint8_t>(byte));
    class_of_[byte] = static_cast<uint8_t>(samples_.size() - 1);
  }
}

// Hashes the edges of a state with the kinds of their targets, one round per byte.
void TransitionNetwork::FindKinds() {
  const auto mix = [](uint64_t hash, uint64_t part) {
    hash = (hash ^ part) * 0x9e3779b97f4a7c15u;
    return hash ^ (hash >> 29);
  };
  kinds_.assign(states(), 0);
  if (moves_.size() + calls_.size() > kMaxKindEdges) {  // each state has its own kind
    for (StateId s = 0; s < states(); ++s) kinds_[s] = s;
    return;
  }
  std::vector<uint64_t> next(states());
  for (int byte = 0; byte < kKindBytes; ++byte) {
    for (StateId s = 0; s < states(); ++s) {
      uint64_t hash = ends(s) ? 1 : 2;
      for (const ByteMove& move : moves(s)) {
        hash = mix(mix(hash, uint64_t{move.first} << 8 | move.last), kinds_[move.to]);
      }
      for (const RuleCall& call : calls(s)) hash = mix(mix(hash, ~uint64_t{call.rule}), kinds_[call.back]);
      next[s] = hash;
    }
    kinds_.swap(next);
  }
}

size_t TransitionNetwork::bytes() const {
  return sizeof *this + states_.capacity() * sizeof(State) + moves_.capacity() * sizeof(ByteMove) +
         calls_.capacity() * sizeof(RuleCall) + (starts_.capacity() + ranks_.capacity()) * 4 + kinds_.capacity() * 8;
}

}  // namespace ringside
