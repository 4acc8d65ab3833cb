// A grammar as it is written: rules of expressions over characters. What the readers of GBNF, regular expressions and
// JSON Schema make, and what a TransitionNetwork is compiled from. All of it charges one budget: once that is
// exhausted nothing is added any more, and readers return the budget's status. One thread at a time.
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
    kBytes,       // `bytes`, as they stand; none = the empty text
    kCharacters,  // one of `characters`, in UTF-8; of no characters = nothing matches
    kSequence,    // `parts`, one behind the other
    kChoice,      // one of `parts`
    kRepeat,      // parts[0], `least` to `most` times
    kRule,        // what `rule` says
    kAutomaton,   // what `automaton` accepts
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
  /// `budget` outlives the source and its copies.
  explicit GrammarSource(GrammarBudget& budget);
  GrammarBudget& budget() const { return *budget_; }

  ExpressionId Bytes(std::string bytes);
  ExpressionId Empty() { return Bytes(""); }
  ExpressionId Characters(CodePointSet characters);
  static ExpressionId Never() { return 0; }
  ExpressionId Sequence(std::vector<ExpressionId> parts);
  /// None: nothing matches.
  ExpressionId Choice(std::vector<ExpressionId> parts);
  /// `most` may be kUnbounded; least <= most.
  ExpressionId Repeat(ExpressionId part, uint32_t least, uint32_t most);
  ExpressionId Optional(ExpressionId part) { return Repeat(part, 0, 1); }
  ExpressionId Rule(RuleId rule);
  /// `keyword`: of a schema, which it is written out for.
  ExpressionId Automaton(ByteAutomaton automaton, std::string keyword = "");

  /// A rule that is still to be defined: until then nothing matches it. The name is for messages; `of_schema`: it is
  /// the place of a schema.
  RuleId AddRule(std::string name, bool of_schema = false);
  void Define(RuleId rule, ExpressionId body) { rules_[rule].body = body; }
  /// Says which keyword of a schema an expression is written out for; errors name it.
  void Name(ExpressionId expression, std::string keyword);
  /// "" = it has no name.
  const std::string& NameOf(ExpressionId expression) const;
  /// What a whole text must match.
  void SetStart(RuleId rule) { start_ = rule; }

  /// How much has been added; and takes back what was added since.
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
  std::vector<Expression> expressions_;  // the first is Never
  std::unordered_map<ExpressionId, std::string> names_;
  std::vector<RuleBody> rules_;
  RuleId start_ = 0;
};

}  // namespace ringside
