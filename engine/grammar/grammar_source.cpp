#include "engine/grammar/grammar_source.h"

#include "base/check.h"

namespace ringside {

ExpressionId GrammarSource::Add(Expression expression) {
  expressions_.push_back(std::move(expression));
  return static_cast<ExpressionId>(expressions_.size() - 1);
}

ExpressionId GrammarSource::Bytes(std::string bytes) {
  return Add({.kind = Expression::Kind::kBytes, .bytes = std::move(bytes)});
}

ExpressionId GrammarSource::Characters(CodePointSet characters) {
  return Add({.kind = Expression::Kind::kCharacters, .characters = std::move(characters)});
}

ExpressionId GrammarSource::Sequence(std::vector<ExpressionId> parts) {
  if (parts.size() == 1) return parts.front();
  return Add({.kind = Expression::Kind::kSequence, .parts = std::move(parts)});
}

ExpressionId GrammarSource::Choice(std::vector<ExpressionId> parts) {
  if (parts.empty()) return Never();
  if (parts.size() == 1) return parts.front();
  return Add({.kind = Expression::Kind::kChoice, .parts = std::move(parts)});
}

ExpressionId GrammarSource::Repeat(ExpressionId part, uint32_t least, uint32_t most) {
  CHECK_LE(least, most);
  if (least == 1 && most == 1) return part;
  return Add({.kind = Expression::Kind::kRepeat, .parts = {part}, .least = least, .most = most});
}

ExpressionId GrammarSource::Rule(RuleId rule) {
  CHECK_LT(rule, rules_.size());
  return Add({.kind = Expression::Kind::kRule, .rule = rule});
}

ExpressionId GrammarSource::Automaton(std::shared_ptr<const ByteAutomaton> automaton) {
  return Add({.kind = Expression::Kind::kAutomaton, .automaton = std::move(automaton)});
}

void GrammarSource::Truncate(const Size& size) {
  CHECK_LE(size.expressions, expressions_.size());
  CHECK_LE(size.rules, rules_.size());
  expressions_.resize(size.expressions);
  rules_.resize(size.rules);
}

RuleId GrammarSource::AddRule(std::string name) {
  rules_.push_back({std::move(name), Never()});
  return static_cast<RuleId>(rules_.size() - 1);
}

}  // namespace ringside
