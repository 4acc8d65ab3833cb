#include "engine/grammar/state_graph.h"

#include "base/limits.h"
#include "engine/grammar/byte_automaton.h"

namespace ringside {

StateId StateGraph::Add() {
  states_.emplace_back();
  return static_cast<StateId>(states_.size() - 1);
}

void StateGraph::Move(StateId from, uint8_t first, uint8_t last, StateId to) {
  states_[from].moves.push_back({first, last, to});
  ++edges_;
}

Status StateGraph::CheckSize() const {
  if (states_.size() <= static_cast<size_t>(limits::kMaxGrammarStates) &&
      edges_ <= static_cast<size_t>(limits::kMaxGrammarMoves)) {
    return Status::Ok();
  }
  return InvalidArgument("The grammar is too large: written out, its repetitions have more than " +
                         std::to_string(limits::kMaxGrammarStates) + " states.");
}

Status StateGraph::Emit(const GrammarSource& source, ExpressionId id, StateId from, StateId to) {
  RETURN_IF_ERROR(CheckSize());
  const Expression& expression = source.at(id);
  switch (expression.kind) {
    case Expression::Kind::kBytes: {
      if (expression.bytes.empty()) {
        states_[from].steps.push_back(to);
        ++edges_;
      }
      for (size_t i = 0; i < expression.bytes.size(); ++i) {
        const StateId next = i + 1 == expression.bytes.size() ? to : Add();
        Move(from, static_cast<uint8_t>(expression.bytes[i]), static_cast<uint8_t>(expression.bytes[i]), next);
        from = next;
      }
      return CheckSize();
    }
    case Expression::Kind::kCharacters:
      return EmitCharacters(expression.characters, from, to);
    case Expression::Kind::kSequence: {
      for (size_t i = 0; i < expression.parts.size(); ++i) {
        const StateId next = i + 1 == expression.parts.size() ? to : Add();
        RETURN_IF_ERROR(Emit(source, expression.parts[i], from, next));
        from = next;
      }
      if (expression.parts.empty()) states_[from].steps.push_back(to);
      return Status::Ok();
    }
    case Expression::Kind::kChoice: {
      for (const ExpressionId part : expression.parts) RETURN_IF_ERROR(Emit(source, part, from, to));
      return Status::Ok();
    }
    case Expression::Kind::kRepeat:
      return EmitRepeat(source, expression, from, to);
    case Expression::Kind::kRule:
      states_[from].calls.push_back({expression.rule, to});
      ++edges_;
      return Status::Ok();
    case Expression::Kind::kAutomaton:
      return EmitAutomaton(*expression.automaton, from, to);
  }
  return Status::Ok();
}

Status StateGraph::EmitCharacters(const CodePointSet& characters, StateId from, StateId to) {
  // Characters that end alike share the states of their last bytes.
  std::map<std::vector<std::pair<uint8_t, uint8_t>>, StateId> tails;
  for (const CodePointRange& range : characters.ranges()) {
    for (const std::vector<ByteRange>& sequence : Utf8Sequences(range)) {
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
  return CheckSize();
}

Status StateGraph::EmitRepeat(const GrammarSource& source, const Expression& repeat, StateId from, StateId to) {
  const ExpressionId part = repeat.parts.front();
  const uint32_t written = repeat.most == kUnbounded ? repeat.least : repeat.most;
  for (uint32_t i = 0; i < written; ++i) {
    if (i >= repeat.least) states_[from].steps.push_back(to);
    const StateId next = Add();
    RETURN_IF_ERROR(Emit(source, part, from, next));
    from = next;
  }
  if (repeat.most == kUnbounded) {
    const StateId loop = Add();
    states_[from].steps.push_back(loop);
    RETURN_IF_ERROR(Emit(source, part, loop, loop));
    from = loop;
  }
  states_[from].steps.push_back(to);
  edges_ += written + 2;
  return CheckSize();
}

Status StateGraph::EmitAutomaton(const ByteAutomaton& automaton, StateId from, StateId to) {
  const auto first = static_cast<StateId>(states_.size());
  for (size_t i = 0; i < automaton.states().size(); ++i) Add();
  states_[from].steps.push_back(first);
  for (size_t i = 0; i < automaton.states().size(); ++i) {
    const ByteAutomaton::State& state = automaton.states()[i];
    const StateId own = first + static_cast<StateId>(i);
    for (const ByteMove& move : state.moves) Move(own, move.first, move.last, first + move.to);
    if (state.ends) states_[own].steps.push_back(to);
  }
  return CheckSize();
}

}  // namespace ringside
