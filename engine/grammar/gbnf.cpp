#include "engine/grammar/gbnf.h"

#include <algorithm>
#include <map>
#include <string>

#include "base/limits.h"
#include "engine/grammar/text_cursor.h"

namespace ringside {
namespace {

bool IsNameCharacter(uint32_t c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' || c == '_';
}

class GbnfReader {
 public:
  GbnfReader(std::string_view text, GrammarBudget& budget) : text_(text), at_(text), source_(budget) {}

  Result<GrammarSource> Read() {
    Blanks(/*lines=*/true);
    while (!at_.done()) {
      RETURN_IF_ERROR(OneRule());
      Blanks(/*lines=*/true);
    }
    for (const auto& [name, rule] : rules_) {
      if (rule.defined) continue;
      return InvalidArgument("grammar: the rule '" + name.substr(0, limits::kMaxQuotedRuleBytes) +
                             "' is used but not defined.");
    }
    const auto root = rules_.find("root");
    if (root == rules_.end()) return InvalidArgument("grammar: no rule 'root' is defined.");
    source_.SetStart(root->second.id);
    return std::move(source_);
  }

 private:
  struct NamedRule {
    RuleId id = 0;
    bool defined = false;
  };

  Status Malformed(const std::string& what) const {
    const std::string_view before = text_.substr(0, at_.position());
    return InvalidArgument("grammar, line " + std::to_string(std::ranges::count(before, '\n') + 1) + ": " + what + ".");
  }

  void Blanks(bool lines) {
    for (;;) {
      if (at_.Peek() == '#') {
        while (!at_.done() && at_.Peek() != '\n' && at_.Peek() != '\r') at_.Next();
      } else if (at_.Peek() == ' ' || at_.Peek() == '\t' || (lines && (at_.Peek() == '\n' || at_.Peek() == '\r'))) {
        at_.Next();
      } else {
        return;
      }
    }
  }

  std::string Name() {
    std::string name;
    while (!at_.done() && IsNameCharacter(at_.Peek())) name += static_cast<char>(at_.Next());
    return name;
  }

  NamedRule& RuleOf(const std::string& name) {
    const auto [at, added] = rules_.try_emplace(name);
    if (added) at->second.id = source_.AddRule(name);
    return at->second;
  }

  Status OneRule() {
    const std::string name = Name();
    if (name.empty()) return Malformed("a rule begins with its name");
    Blanks(/*lines=*/false);
    if (!at_.Consume("::="))
      return Malformed("'::=' is missing after '" + name.substr(0, limits::kMaxQuotedRuleBytes) + "'");
    if (RuleOf(name).defined)
      return Malformed("the rule '" + name.substr(0, limits::kMaxQuotedRuleBytes) + "' is defined twice");
    RuleOf(name).defined = true;
    Blanks(/*lines=*/true);
    ASSIGN_OR_RETURN(const ExpressionId body, Alternatives(0));
    source_.Define(RuleOf(name).id, body);
    Blanks(/*lines=*/false);
    if (!at_.done() && at_.Peek() != '\n' && at_.Peek() != '\r') return Malformed("unexpected text after a rule");
    return Status::Ok();
  }

  Result<ExpressionId> Alternatives(int depth) {
    std::vector<ExpressionId> alternatives;
    for (;;) {
      ASSIGN_OR_RETURN(const ExpressionId one, Sequence(depth));
      alternatives.push_back(one);
      if (!at_.Consume('|')) return source_.Choice(std::move(alternatives));
      Blanks(/*lines=*/true);
    }
  }

  Result<ExpressionId> Sequence(int depth) {
    std::vector<ExpressionId> parts;
    for (;;) {
      if (!source_.budget().Spend(1)) return source_.budget().status();
      const uint32_t c = at_.Peek();
      ExpressionId part = 0;
      if (c == '"') {
        ASSIGN_OR_RETURN(part, Literal());
      } else if (c == '[') {
        ASSIGN_OR_RETURN(part, Class());
      } else if (c == '(') {
        ASSIGN_OR_RETURN(part, Group(depth));
      } else if (c == '.') {
        at_.Next();
        part = source_.Characters(CodePointSet::All());
      } else if (c != TextCursor::kEnd && IsNameCharacter(c)) {
        part = source_.Rule(RuleOf(Name()).id);
      } else if (c == '<' || c == '!') {
        return Malformed("tokens (<...>) are not supported: the grammar is over text");
      } else {
        return source_.Sequence(std::move(parts));
      }
      Blanks(depth > 0);
      ASSIGN_OR_RETURN(part, Quantified(part, depth));
      parts.push_back(part);
    }
  }

  Result<ExpressionId> Quantified(ExpressionId part, int depth) {
    uint32_t least = 0, most = kUnbounded;
    if (at_.Consume('+')) {
      least = 1;
    } else if (at_.Consume('?')) {
      most = 1;
    } else if (at_.Peek() == '{') {
      const auto bounds = at_.ConsumeBounds();
      if (!bounds) return Malformed("a '{' that does not start {m}, {m,} or {m,n}");
      least = bounds->first, most = bounds->second;
      if (least > most) return Malformed("{m,n} with m above n");
      if (least > limits::kMaxGrammarRepeats || (most != kUnbounded && most > limits::kMaxGrammarRepeats)) {
        return Malformed("more than " + std::to_string(limits::kMaxGrammarRepeats) + " repetitions");
      }
    } else if (!at_.Consume('*')) {
      return part;
    }
    Blanks(depth > 0);
    const uint32_t c = at_.Peek();
    if (c == '*' || c == '+' || c == '?' || c == '{') return Malformed("a quantifier of a quantifier");
    return source_.Repeat(part, least, most);
  }

  Result<ExpressionId> Group(int depth) {
    if (depth >= limits::kMaxGroupDepth) return Malformed("groups are nested too deeply");
    at_.Next();
    Blanks(/*lines=*/true);
    ASSIGN_OR_RETURN(const ExpressionId body, Alternatives(depth + 1));
    if (!at_.Consume(')')) return Malformed("a ')' is missing");
    return body;
  }

  Result<ExpressionId> Literal() {
    at_.Next();
    std::string bytes;
    while (!at_.Consume('"')) {
      ASSIGN_OR_RETURN(const uint32_t c, Character());
      AppendCodePoint(c, &bytes);
    }
    return source_.Bytes(std::move(bytes));
  }

  Result<ExpressionId> Class() {
    at_.Next();
    const bool negated = at_.Consume('^');
    CodePointSet set;
    while (!at_.Consume(']')) {
      if (!source_.budget().Spend(1 + std::ssize(set.ranges()) / 64)) return source_.budget().status();
      ASSIGN_OR_RETURN(const uint32_t first, Character());
      uint32_t last = first;
      if (at_.Peek() == '-' && at_.PeekSecond() != ']') {
        at_.Next();
        ASSIGN_OR_RETURN(last, Character());
        if (first > last) return Malformed("a character range in descending order");
      }
      set.Add(first, last);
    }
    return source_.Characters(negated ? set.Complement() : set);
  }

  // A character of a literal or a class.
  Result<uint32_t> Character() {
    if (at_.done()) return Malformed("an unclosed literal or class");
    const uint32_t c = at_.Next();
    if (c == '\n' || c == '\r') return Malformed("a literal or class ends in its line; a line's end is written \\n");
    if (c != '\\') return c;
    if (at_.done()) return Malformed("a '\\' at the end");
    const uint32_t escaped = at_.Next();
    switch (escaped) {
      case 'n':
        return uint32_t{'\n'};
      case 'r':
        return uint32_t{'\r'};
      case 't':
        return uint32_t{'\t'};
      case 'x':
      case 'u':
      case 'U': {
        const int digits = escaped == 'x' ? 2 : escaped == 'u' ? 4 : 8;
        const auto value = at_.ConsumeHex(digits, digits);
        if (!value) return Malformed("missing hexadecimal digits");
        if (*value > 0x10FFFF || (*value >= 0xD800 && *value <= 0xDFFF))
          return Malformed("an escape of an invalid character");
        return *value;
      }
      case '\\':
      case '"':
      case '[':
      case ']':
      case '-':
      case '^':
        return escaped;
      default:
        return Malformed("an unknown escape");
    }
  }

  const std::string_view text_;
  TextCursor at_;
  GrammarSource source_;
  std::map<std::string, NamedRule> rules_;
};

}  // namespace

Result<GrammarSource> ReadGbnf(std::string_view text, GrammarBudget& budget) { return GbnfReader(text, budget).Read(); }

}  // namespace ringside
