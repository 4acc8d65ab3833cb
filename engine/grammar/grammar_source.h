// The syntax tree of a grammar: rules of expressions over characters. Built by the parsers of GBNF, regular expressions
// and JSON Schema, and compiled to a TransitionNetwork. Charges one budget: once that is exhausted nothing is added,
// and parsers return the budget's status. THREAD: one at a time.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "engine/grammar/code_points.h"
#include "engine/grammar/grammar_budget.h"

namespace ringside {

class ByteAutomaton;

using ExpressionId = uint32_t;
using RuleId = uint32_t;

constexpr uint32_t kUnbounded = UINT32_MAX;

struct Expression {
  enum class Kind : uint8_t {
    kBytes,       // `bytes`; none = the empty text
    kCharacters,  // one of `characters`, in UTF-8; an empty set matches nothing
    kSequence,    // `parts`, concatenated
    kChoice,      // one of `parts`
    kRepeat,      // parts[0], `least` to `most` times
    kRule,        // the language of `rule`
    kAutomaton,   // the language of `automaton`
  };
  Kind kind = Kind::kBytes;
  std::string bytes;
  CodePointSet characters;
  std::vector<ExpressionId> parts;
  uint32_t least = 0, most = 0;
  RuleId rule = 0;
  std::shared_ptr<const ByteAutomaton> automaton;
};

class GrammarSource {
 public:
  /// REQUIRES: `budget` outlives the source and its copies.
  explicit GrammarSource(GrammarBudget& budget);
  GrammarBudget& budget() const { return *budget_; }

  ExpressionId Bytes(std::string bytes);
  ExpressionId Empty() { return Bytes(""); }
  ExpressionId Characters(CodePointSet characters);
  static ExpressionId Never() { return 0; }
  ExpressionId Sequence(std::vector<ExpressionId> parts);
  /// An empty choice matches nothing.
  ExpressionId Choice(std::vector<ExpressionId> parts);
  /// `most` may be kUnbounded. REQUIRES: least <= most.
  ExpressionId Repeat(ExpressionId part, uint32_t least, uint32_t most);
  ExpressionId Optional(ExpressionId part) { return Repeat(part, 0, 1); }
  ExpressionId Rule(RuleId rule);
  /// `keyword`: the schema keyword that it is expanded from.
  ExpressionId Automaton(ByteAutomaton automaton, std::string keyword = "");

  /// Declares a rule, which matches nothing until it is defined. `name`: for messages; `of_schema`: the name is a path
  /// in a schema.
  RuleId AddRule(std::string name, bool of_schema = false);
  void Define(RuleId rule, ExpressionId body) { rules_[rule].body = body; }
  /// Names the schema keyword that an expression is expanded from; errors report it.
  void Name(ExpressionId expression, std::string keyword);
  /// "" = no name.
  const std::string& NameOf(ExpressionId expression) const;
  /// The rule that a whole text must match.
  void SetStart(RuleId rule) { start_ = rule; }

  /// A savepoint, and the rollback to it.
  struct Size {
    size_t expressions = 0, rules = 0;
  };
  Size size() const { return {expressions_.size(), rules_.size()}; }
  void Truncate(const Size& size);

  struct RuleBody {
    std::string name;
    ExpressionId body = 0;
    bool of_schema = false;
  };
  const std::vector<RuleBody>& rules() const { return rules_; }
  const Expression& at(ExpressionId id) const { return expressions_[id]; }
  RuleId start() const { return start_; }

 private:
  ExpressionId Add(Expression expression);

  GrammarBudget* budget_;
  std::vector<Expression> expressions_;  // the first one is Never
  std::unordered_map<ExpressionId, std::string> names_;
  std::vector<RuleBody> rules_;
  RuleId start_ = 0;
};

}  // namespace ringside
