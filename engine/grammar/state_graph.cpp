#include "engine/grammar/state_graph.h"

#include <algorithm>
#include <cstddef>
#include <map>
#include <string>
#include <utility>

#include "base/limits.h"
#include "engine/grammar/byte_automaton.h"

namespace ringside {
namespace {

constexpr std::ptrdiff_t kManyLiterals = 16;
constexpr int64_t kStateBytes = sizeof(StateGraph::State) + 32;  // allocator overhead included
constexpr int64_t kEdgeBytes = 2 * sizeof(ByteMove);             // a vector may be half empty

}  // namespace

StateId StateGraph::Add() {
  if (states_.size() >= static_cast<size_t>(limits::kMaxGrammarStates)) {
    budget_.Refuse(InvalidArgument("The grammar is too large: written out, it has more than " +
                                   std::to_string(limits::kMaxGrammarStates) + " states."));
  }
  if (!budget_.Spend(1) || !memory_.Add(kStateBytes)) return 0;
  states_.emplace_back();
  return static_cast<StateId>(states_.size() - 1);
}

bool StateGraph::HoldEdge() { return budget_.Spend(1) && memory_.Add(kEdgeBytes); }

void StateGraph::Move(StateId from, uint8_t first, uint8_t last, StateId to) {
  if (HoldEdge()) states_[from].moves.push_back({first, last, to});
}

void StateGraph::Step(StateId from, StateId to) {
  if (HoldEdge()) states_[from].steps.push_back(to);
}

Status StateGraph::Emit(const GrammarSource& source, ExpressionId id, StateId from, StateId to) {
  if (!budget_.Spend(1)) return budget_.status();
  Status status = EmitParts(source, source.at(id), from, to);
  if (status.ok() || !status.param().empty()) return status;
  return {status.code(), status.message(), source.NameOf(id), status.reason()};
}

Status StateGraph::EmitParts(const GrammarSource& source, const Expression& expression, StateId from, StateId to) {
  switch (expression.kind) {
    case Expression::Kind::kBytes:
      return EmitBytes(expression.bytes, from, to);
    case Expression::Kind::kCharacters:
      return EmitCharacters(expression.characters, from, to);
    case Expression::Kind::kSequence: {
      for (size_t i = 0; i < expression.parts.size(); ++i) {
        const StateId next = i + 1 == expression.parts.size() ? to : Add();
        RETURN_IF_ERROR(Emit(source, expression.parts[i], from, next));
        from = next;
      }
      if (expression.parts.empty()) Step(from, to);
      break;
    }
    case Expression::Kind::kChoice:
      return EmitChoice(source, expression, from, to);
    case Expression::Kind::kRepeat:
      return EmitRepeat(source, expression, from, to);
    case Expression::Kind::kRule:
      if (HoldEdge()) states_[from].calls.push_back({expression.rule, to});
      break;
    case Expression::Kind::kAutomaton:
      return EmitAutomaton(*expression.automaton, from, to);
  }
  return budget_.status();
}

// Many literals become a trie: a parse follows one path instead of one per literal.
Status StateGraph::EmitChoice(const GrammarSource& source, const Expression& choice, StateId from, StateId to) {
  const auto is_literal = [&](ExpressionId part) { return source.at(part).kind == Expression::Kind::kBytes; };
  const bool merges = std::ranges::count_if(choice.parts, is_literal) >= kManyLiterals;
  std::vector<std::string> literals;
  for (const ExpressionId part : choice.parts) {
    if (merges && is_literal(part)) {
      literals.push_back(source.at(part).bytes);
    } else {
      RETURN_IF_ERROR(Emit(source, part, from, to));
    }
  }
  if (!merges) return budget_.status();
  ASSIGN_OR_RETURN(const ByteAutomaton trie, ByteAutomaton::OfStrings(std::move(literals), budget_));
  return EmitAutomaton(trie, from, to);
}

Status StateGraph::EmitBytes(const std::string& bytes, StateId from, StateId to) {
  if (bytes.empty()) Step(from, to);
  for (size_t i = 0; i < bytes.size() && budget_.ok(); ++i) {
    const StateId next = i + 1 == bytes.size() ? to : Add();
    Move(from, static_cast<uint8_t>(bytes[i]), static_cast<uint8_t>(bytes[i]), next);
    from = next;
  }
  return budget_.status();
}

Status StateGraph::EmitCharacters(const CodePointSet& characters, StateId from, StateId to) {
  // Characters with equal UTF-8 suffixes share states.
  std::map<std::vector<std::pair<uint8_t, uint8_t>>, StateId> tails;
  for (const CodePointRange& range : characters.ranges()) {
    const std::vector<std::vector<ByteRange>> sequences = Utf8Sequences(range);
    if (!budget_.Spend(static_cast<int64_t>(4 * sequences.size()))) return budget_.status();
    for (const std::vector<ByteRange>& sequence : sequences) {
      StateId next = to;
      std::vector<std::pair<uint8_t, uint8_t>> tail;
      for (size_t i = sequence.size(); --i > 0;) {
        tail.emplace_back(sequence[i].first, sequence[i].last);
        const auto [at, added] = tails.try_emplace(tail, 0);
        if (added) {
          at->second = Add();
          Move(at->second, sequence[i].first, sequence[i].last, next);
        }
        next = at->second;
      }
      Move(from, sequence[0].first, sequence[0].last, next);
    }
  }
  return budget_.status();
}

Status StateGraph::EmitRepeat(const GrammarSource& source, const Expression& repeat, StateId from, StateId to) {
  const ExpressionId part = repeat.parts.front();
  const uint32_t written = repeat.most == kUnbounded ? repeat.least : repeat.most;
  for (uint32_t i = 0; i < written; ++i) {
    if (i >= repeat.least) Step(from, to);
    const StateId next = Add();
    RETURN_IF_ERROR(Emit(source, part, from, next));
    from = next;
  }
  if (repeat.most == kUnbounded) {
    const StateId loop = Add();
    Step(from, loop);
    RETURN_IF_ERROR(Emit(source, part, loop, loop));
    from = loop;
  }
  Step(from, to);
  return budget_.status();
}

Status StateGraph::EmitAutomaton(const ByteAutomaton& automaton, StateId from, StateId to) {
  const auto first = static_cast<StateId>(states_.size());
  for (size_t i = 0; i < automaton.states().size() && budget_.ok(); ++i) Add();
  if (!budget_.ok()) return budget_.status();
  Step(from, first);
  for (size_t i = 0; i < automaton.states().size(); ++i) {
    const ByteAutomaton::State& state = automaton.states()[i];
    const StateId own = first + static_cast<StateId>(i);
    for (const ByteMove& move : state.moves) Move(own, move.first, move.last, first + move.to);
    if (state.ends) Step(own, to);
  }
  return budget_.status();
}

}  // namespace ringside
