#include "engine/grammar/regex.h"

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/limits.h"
#include "engine/grammar/text_cursor.h"

namespace ringside {
namespace {

const CodePointSet& Digits() {
  static const CodePointSet set = {{'0', '9'}};
  return set;
}
const CodePointSet& Words() {
  static const CodePointSet set = {{'0', '9'}, {'A', 'Z'}, {'a', 'z'}, {'_', '_'}};
  return set;
}
const CodePointSet& Spaces() {
  static const CodePointSet set = {{'\t', '\r'}, {' ', ' '}};
  return set;
}
// The characters that some regex engine treats as digit, word character or space.
CodePointSet Widest(const CodePointSet& ascii) {
  CodePointSet set = ascii;
  set.Add(0x80, 0x10FFFF);
  return set;
}
const CodePointSet& AnySpaces() {
  static const CodePointSet set = {{'\t', '\r'},     {0x1C, 0x20},     {0x85, 0x85},     {0xA0, 0xA0},
                                   {0x1680, 0x1680}, {0x180E, 0x180E}, {0x2000, 0x200A}, {0x2028, 0x2029},
                                   {0x202F, 0x202F}, {0x205F, 0x205F}, {0x3000, 0x3000}, {0xFEFF, 0xFEFF}};
  return set;
}
const CodePointSet& Lines() {
  static const CodePointSet set = {{'\n', '\n'}, {'\r', '\r'}, {0x2028, 0x2029}};
  return set;
}

// A set as every regex engine matches it, and the union over engines.
struct ReadSet {
  CodePointSet least, most;
};

class RegexReader {
 public:
  RegexReader(std::string_view pattern, GrammarSource* source, const RegexOptions& options)
      : at_(pattern), source_(*source), options_(options) {}

  Result<ExpressionId> Read() {
    std::vector<ExpressionId> alternatives;
    ExpressionId anything = 0;
    if (options_.search) anything = source_.Repeat(Write(CodePointSet::All()), 0, kUnbounded);
    do {
      const bool from_start = at_.Consume('^');
      ASSIGN_OR_RETURN(ExpressionId body, Sequence(0));
      const bool to_end = at_.Consume('$');
      if (options_.search) {
        std::vector<ExpressionId> parts = {body};
        if (!from_start) parts.insert(parts.begin(), anything);
        if (!to_end) parts.push_back(anything);
        body = source_.Sequence(std::move(parts));
      }
      alternatives.push_back(body);
    } while (at_.Consume('|'));
    if (!at_.done()) return Malformed(at_.Peek() == ')' ? "unmatched ')'" : "'$' is allowed at the end only");
    return source_.Choice(std::move(alternatives));
  }

 private:
  Status Malformed(const std::string& what) const {
    return InvalidArgument("regular expression, byte " + std::to_string(at_.position()) + ": " + what + ".");
  }
  Status Refused(const std::string& what) const { return Malformed(what + " is not supported"); }

  // Equal sets share an expression.
  ExpressionId Write(const CodePointSet& set) {
    const auto [at, added] = written_.try_emplace({set.ranges().begin(), set.ranges().end()}, 0);
    if (added) at->second = options_.characters ? options_.characters(set) : source_.Characters(set);
    return at->second;
  }

  Result<ExpressionId> Alternatives(int depth) {
    std::vector<ExpressionId> alternatives;
    do {
      ASSIGN_OR_RETURN(const ExpressionId one, Sequence(depth));
      alternatives.push_back(one);
    } while (at_.Consume('|'));
    return source_.Choice(std::move(alternatives));
  }

  Result<ExpressionId> Sequence(int depth) {
    std::vector<ExpressionId> parts;
    if (!source_.budget().Spend(1)) return source_.budget().status();
    while (!at_.done() && at_.Peek() != '|' && at_.Peek() != ')' && at_.Peek() != '$') {
      if (!source_.budget().Spend(1)) return source_.budget().status();
      ASSIGN_OR_RETURN(const ExpressionId atom, Atom(depth));
      ASSIGN_OR_RETURN(const ExpressionId part, Quantified(atom));
      parts.push_back(part);
    }
    return source_.Sequence(std::move(parts));
  }

  Result<ExpressionId> Quantified(ExpressionId atom) {
    uint32_t least = 1, most = 1;
    if (at_.Consume('*')) {
      least = 0, most = kUnbounded;
    } else if (at_.Consume('+')) {
      most = kUnbounded;
    } else if (at_.Consume('?')) {
      least = 0;
    } else if (at_.Peek() == '{') {
      const auto bounds = at_.ConsumeBounds();
      if (!bounds) return Malformed("a '{' that does not start {m}, {m,} or {m,n} must be written \\{");
      least = bounds->first, most = bounds->second;
    } else {
      return atom;
    }
    if (least > most) return Malformed("{m,n} with m above n");
    if (least > limits::kMaxGrammarRepeats || (most != kUnbounded && most > limits::kMaxGrammarRepeats)) {
      return Malformed("more than " + std::to_string(limits::kMaxGrammarRepeats) + " repetitions");
    }
    at_.Consume('?');  // lazy
    if (at_.Peek() == '+') return Refused("a possessive quantifier");
    if (at_.Peek() == '*' || at_.Peek() == '?' || at_.Peek() == '{') return Malformed("a quantifier of a quantifier");
    return source_.Repeat(atom, least, most);
  }

  Result<ExpressionId> Atom(int depth) {
    const uint32_t c = at_.Peek();
    switch (c) {
      case '(':
        return Group(depth);
      case '[': {
        at_.Next();
        ASSIGN_OR_RETURN(const CodePointSet set, Class());
        return Write(set);
      }
      case '.':
        at_.Next();
        return Write(Lines().Complement());
      case '\\': {
        at_.Next();
        ASSIGN_OR_RETURN(const ReadSet set, Escape(/*in_class=*/false));
        return Write(set.least);
      }
      case '^':
        return Refused("'^' after the beginning");
      case '*':
      case '+':
      case '?':
      case '{':
      case '}':
      case ']':
        return Malformed("'" + std::string(1, static_cast<char>(c)) +
                         "' has nothing to repeat; as a literal it must be written \\" +
                         std::string(1, static_cast<char>(c)));
      default:
        at_.Next();
        return Write({{c, c}});
    }
  }

  Result<ExpressionId> Group(int depth) {
    if (depth >= limits::kMaxGroupDepth) return Malformed("groups are nested too deeply");
    at_.Next();
    if (at_.Consume('?')) {
      if (at_.Peek() == '=' || at_.Peek() == '!') return Refused("a lookahead");
      if (at_.Peek() == '<') return Refused("a lookbehind or named group");
      if (!at_.Consume(':')) return Refused("a special group");
    }
    ASSIGN_OR_RETURN(const ExpressionId body, Alternatives(depth + 1));
    if (at_.Peek() == '$') return Refused("'$' inside a group");
    if (!at_.Consume(')')) return Malformed("an unclosed group");
    return body;
  }

  // After the '['.
  Result<CodePointSet> Class() {
    const bool negated = at_.Consume('^');
    ReadSet set;
    while (!at_.Consume(']')) {
      if (at_.done()) return Malformed("an unclosed character class");
      if (!source_.budget().Spend(1 + std::ssize(set.most.ranges()) / 64)) return source_.budget().status();
      ASSIGN_OR_RETURN(const ReadSet first, ClassAtom());
      const auto low = Single(first);
      if (at_.Peek() == '-' && at_.PeekSecond() != ']' && low) {
        at_.Next();
        if (at_.done()) return Malformed("an unclosed character class");
        ASSIGN_OR_RETURN(const ReadSet second, ClassAtom());
        const auto high = Single(second);
        if (!high) return Malformed("a range ends with a class");
        if (*low > *high) return Malformed("a character range in descending order");
        set.least.Add(*low, *high);
        set.most.Add(*low, *high);
        continue;
      }
      set.least.Add(first.least);
      set.most.Add(first.most);
    }
    return negated ? set.most.Complement() : set.least;
  }

  static std::optional<uint32_t> Single(const ReadSet& set) {
    const auto ranges = set.least.ranges();
    if (ranges.size() != 1 || ranges[0].first != ranges[0].last) return std::nullopt;
    return ranges[0].first;
  }

  Result<ReadSet> ClassAtom() {
    if (at_.Consume('\\')) return Escape(/*in_class=*/true);
    if (at_.Peek() == '[' && (at_.PeekSecond() == ':' || at_.PeekSecond() == '[')) return Refused("a class in a class");
    const uint32_t c = at_.Next();
    return ReadSet{{{c, c}}, {{c, c}}};
  }

  Result<ReadSet> Escape(bool in_class) {
    if (at_.done()) return Malformed("a '\\' at the end");
    const uint32_t c = at_.Next();
    const auto one = [](uint32_t value) { return ReadSet{{{value, value}}, {{value, value}}}; };
    const CodePointSet ascii = {{0, 0x7F}};
    switch (c) {
      case 'd':
        return ReadSet{Digits(), Widest(Digits())};
      case 'w':
        return ReadSet{Words(), Widest(Words())};
      case 's':
        return ReadSet{Spaces(), AnySpaces()};
      case 'D':
        return ReadSet{ascii.Without(Digits()), Digits().Complement()};
      case 'W':
        return ReadSet{ascii.Without(Words()), Words().Complement()};
      case 'S':
        return ReadSet{AnySpaces().Complement(), Spaces().Complement()};
      case 't':
        return one('\t');
      case 'n':
        return one('\n');
      case 'r':
        return one('\r');
      case 'f':
        return one('\f');
      case 'v':
        return one('\v');
      case '0':
        if (at_.Peek() >= '0' && at_.Peek() <= '9') return Refused("an octal escape");
        return one(0);
      case 'x':
      case 'u': {
        const bool braced = c == 'u' && at_.Consume('{');
        const auto value = braced ? at_.ConsumeHex(1, 6) : at_.ConsumeHex(c == 'x' ? 2 : 4, c == 'x' ? 2 : 4);
        if (!value || (braced && !at_.Consume('}'))) return Malformed("missing hexadecimal digits");
        if (*value > 0x10FFFF || (*value >= 0xD800 && *value <= 0xDFFF)) return Refused("an invalid character");
        return one(*value);
      }
      case 'b':
        if (in_class) return one('\b');
        return Refused("\\b");
      default:
        break;
    }
    const bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
    if (c >= '1' && c <= '9') return Refused("a back reference");
    if (letter) return Refused("\\" + std::string(1, static_cast<char>(c)));
    return one(c);
  }

  TextCursor at_;
  GrammarSource& source_;
  const RegexOptions& options_;
  std::map<std::vector<CodePointRange>, ExpressionId> written_;
};

}  // namespace

Result<ExpressionId> ReadRegex(std::string_view pattern, GrammarSource* source, const RegexOptions& options) {
  return RegexReader(pattern, source, options).Read();
}

}  // namespace ringside
