#include "engine/grammar/grammar_source.h"

#include <utility>

#include "base/check.h"
#include "engine/grammar/byte_automaton.h"

namespace ringside {

GrammarSource::GrammarSource(GrammarBudget& budget) : budget_(&budget) {
  expressions_.push_back({.kind = Expression::Kind::kCharacters});
}

ExpressionId GrammarSource::Add(Expression expression) {
  const size_t bytes = sizeof expression + expression.bytes.size() +
                       expression.characters.ranges().size() * sizeof(CodePointRange) +
                       expression.parts.size() * sizeof(ExpressionId);
  if (!budget_->Spend(1) || !budget_->Hold(static_cast<int64_t>(bytes))) return 0;
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

ExpressionId GrammarSource::Automaton(ByteAutomaton automaton, std::string keyword) {
  const ExpressionId id = Add(
      {.kind = Expression::Kind::kAutomaton, .automaton = std::make_shared<const ByteAutomaton>(std::move(automaton))});
  if (!keyword.empty()) Name(id, std::move(keyword));
  return id;
}

void GrammarSource::Truncate(const Size& size) {
  CHECK_LE(size.expressions, expressions_.size());
  CHECK_LE(size.rules, rules_.size());
  expressions_.resize(size.expressions);
  std::erase_if(names_, [&](const auto& name) { return name.first >= size.expressions; });
  rules_.resize(size.rules);
}

RuleId GrammarSource::AddRule(std::string name, bool of_schema) {
  const bool affordable = budget_->Spend(1) && budget_->Hold(static_cast<int64_t>(sizeof(RuleBody) + name.size()));
  if (!affordable && !rules_.empty()) return 0;
  rules_.push_back({affordable ? std::move(name) : "", Never(), of_schema});
  return static_cast<RuleId>(rules_.size() - 1);
}

void GrammarSource::Name(ExpressionId expression, std::string keyword) {
  if (budget_->Hold(static_cast<int64_t>(128 + keyword.size()))) names_.try_emplace(expression, std::move(keyword));
}

const std::string& GrammarSource::NameOf(ExpressionId expression) const {
  static const std::string none;
  const auto found = names_.find(expression);
  return found == names_.end() ? none : found->second;
}

}  // namespace ringside
