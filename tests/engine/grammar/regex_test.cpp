#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include <random>

#include "tests/engine/grammar/grammar_harness.h"

namespace ringside {
namespace {

bool RegexMatches(const std::string& pattern, std::string_view text) {
  const auto grammar = Compile(AnswerFormat::Kind::kRegex, pattern);
  EXPECT_TRUE(grammar.ok()) << pattern << ": " << grammar.status().message();
  return grammar.ok() && Matches(*grammar, text);
}

TEST(Regex, Notation) {
  struct Case {
    const char* pattern;
    std::vector<const char*> match, others;
  };
  const Case cases[] = {
      {"abc", {"abc"}, {"", "ab", "abcd", "abd"}},
      {"", {""}, {"a"}},
      {"a|bc|", {"a", "bc", ""}, {"abc", "b"}},
      {"^(yes|no)$", {"yes", "no"}, {"", "ye", "yesno"}},
      {"a*b+c?", {"b", "aab", "abbc"}, {"", "a", "ac", "abcc"}},
      {"(ab){2,3}", {"abab", "ababab"}, {"ab", "abababab", "aba"}},
      {"x{3}", {"xxx"}, {"xx", "xxxx"}},
      {"x{2,}", {"xx", "xxxxxx"}, {"x"}},
      {"a+?b*?", {"a", "aab"}, {"b"}},
      {"[a-c]", {"a", "b", "c"}, {"d", "", "-"}},
      {"[^a-c]", {"d", "\xC3\xA9", "\n"}, {"a", ""}},
      {"[a\\-z]", {"a", "-", "z"}, {"b"}},
      {"[-a]", {"-", "a"}, {"b"}},
      {"[a-]", {"-", "a"}, {"b"}},
      {"[\\d_]{2}", {"1_", "__", "00"}, {"a1"}},
      {"\\d\\w\\s", {"1a ", "0_\t"}, {"aa ", "1a"}},
      {"\\D\\W\\S", {"a-b", "x !"}, {"1-b", "aab"}},
      {"\\S", {"\xC3\xA9", "a"}, {" ", "\xC2\xA0"}},
      {".", {"a", "\xE2\x82\xAC", "\xF0\x9F\x98\x80"}, {"\n", "\r", "", "ab"}},
      {"\\x41\\u00e9\\u{1F600}\\/\\.", {"A\xC3\xA9\xF0\x9F\x98\x80/."}, {"A"}},
      {"\\t\\n\\r\\f\\v\\0?", {"\t\n\r\f\v"}, {"t"}},
      {"(?:a|b)(c|(d|e))", {"ac", "be"}, {"ab", "a"}},
      {"\xC3\xA9+", {"\xC3\xA9", "\xC3\xA9\xC3\xA9"}, {"\xC3", "e"}},
      {"(a*)*b", {"b", "aaab"}, {"a"}},
      {"(a|aa)*", {"", "aaaaa"}, {"b"}},
  };
  for (const Case& one : cases) {
    for (const char* text : one.match) EXPECT_TRUE(RegexMatches(one.pattern, text)) << one.pattern << " / " << text;
    for (const char* text : one.others) EXPECT_FALSE(RegexMatches(one.pattern, text)) << one.pattern << " / " << text;
  }
}

TEST(Regex, RefusesByName) {
  const std::pair<const char*, const char*> cases[] = {{"(?=a)", "lookahead"},
                                                       {"(?!a)b", "lookahead"},
                                                       {"(?<=a)b", "lookbehind"},
                                                       {"(?<n>a)", "named group"},
                                                       {"(a)\\1", "back reference"},
                                                       {"\\bword", "\\b"},
                                                       {"\\p{L}", "\\p"},
                                                       {"a(b", "unclosed"},
                                                       {"a)", "unmatched"},
                                                       {"[a", "unclosed"},
                                                       {"*a", "has nothing to repeat"},
                                                       {"a**", "quantifier"},
                                                       {"a{3,2}", "m above n"},
                                                       {"a{99999999}", "repetitions"},
                                                       {"a^b", "'^'"},
                                                       {"a$b", "'$'"},
                                                       {"(a$)", "'$' inside"},
                                                       {"[z-a]", "descending"},
                                                       {"[a-\\d]", "class"},
                                                       {"\\", "at the end"},
                                                       {"\\ud800", "invalid character"},
                                                       {"a{", "\\{"},
                                                       {"a++", "possessive"},
                                                       {"\\012", "octal"},
                                                       {"(?i)a", "special group"},
                                                       {"\\xZ", "hexadecimal"},
                                                       {"[[:alpha:]]", "class in a class"}};
  for (const auto& [pattern, why] : cases) {
    const auto grammar = Compile(AnswerFormat::Kind::kRegex, pattern);
    ASSERT_FALSE(grammar.ok()) << pattern;
    EXPECT_NE(grammar.status().message().find(why), std::string::npos) << pattern << ": " << grammar.status().message();
    EXPECT_EQ(grammar.status().param(), "format");
  }
}

TEST(Regex, RefusesLargePatterns) {
  for (const char* pattern : {"((((a{1000}){1000}){1000}){1000})", "(a?){60000}(b?){60000}(c?){60000}"}) {
    const auto grammar = Compile(AnswerFormat::Kind::kRegex, pattern);
    ASSERT_FALSE(grammar.ok()) << pattern;
    EXPECT_NE(grammar.status().message().find("too large"), std::string::npos) << grammar.status().message();
  }
  const auto deep = Compile(AnswerFormat::Kind::kRegex, std::string(5000, '(') + std::string(5000, ')'));
  EXPECT_NE(deep.status().message().find("too deeply"), std::string::npos);
  // A deterministic automaton would have 2^30 states; here the number is linear in the expression.
  EXPECT_TRUE(RegexMatches("(a|b)*a(a|b){30}", "ba" + std::string(30, 'b')));
  EXPECT_FALSE(RegexMatches("(a|b)*a(a|b){30}", "bb" + std::string(30, 'b')));
}

// Random expressions over few characters, so that texts match often.
class RandomRegex {
 public:
  explicit RandomRegex(uint32_t seed) : random_(seed) {}
  size_t Below(size_t n) { return random_() % n; }

  std::string Expression(int depth) {
    std::string out;
    const size_t alternatives = depth > 0 && Below(3) == 0 ? 2 : 1;
    for (size_t a = 0; a < alternatives; ++a) {
      if (a > 0) out += '|';
      for (size_t i = Below(4); i > 0; --i) out += Piece(depth);
    }
    return out;
  }
  std::string Text() {
    static const char* const kPieces[] = {"a", "b", "c", "1", " ", "\n", "\xC3\xA9", "-"};
    std::string out;
    for (size_t i = Below(7); i > 0; --i) out += kPieces[Below(std::size(kPieces))];
    return out;
  }

 private:
  std::string Piece(int depth) {
    static const char* const kAtoms[] = {"a",    "b",   "c",      "\xC3\xA9", ".",  "[ab]",
                                         "[^a]", "\\d", "[b-c1]", "[^\\s]",   "\\-"};
    std::string atom = kAtoms[Below(std::size(kAtoms))];
    if (depth > 0 && Below(3) == 0) atom = (Below(2) == 0 ? "(" : "(?:") + Expression(depth - 1) + ")";
    static const char* const kQuantifiers[] = {"", "", "", "*", "+", "?", "{2}", "{1,3}", "{0,2}", "{2,}", "*?"};
    return atom + kQuantifiers[Below(std::size(kQuantifiers))];
  }
  std::mt19937 random_;
};

TEST(Regex, MatchesPcre2) {
  RandomRegex random(7);
  int matched = 0;
  for (int i = 0; i < 400; ++i) {
    const std::string pattern = random.Expression(3);
    int error = 0;
    PCRE2_SIZE offset = 0;
    pcre2_code* code =
        pcre2_compile(reinterpret_cast<PCRE2_SPTR>(pattern.data()), pattern.size(),
                      PCRE2_UTF | PCRE2_ANCHORED | PCRE2_ENDANCHORED | PCRE2_DOLLAR_ENDONLY, &error, &offset, nullptr);
    ASSERT_NE(code, nullptr) << pattern;
    pcre2_match_data* data = pcre2_match_data_create_from_pattern(code, nullptr);
    const auto grammar = Compile(AnswerFormat::Kind::kRegex, pattern);
    ASSERT_TRUE(grammar.ok()) << pattern << ": " << grammar.status().message();
    for (int j = 0; j < 40; ++j) {
      const std::string text = random.Text();
      const int found = pcre2_match(code, reinterpret_cast<PCRE2_SPTR>(text.data()), text.size(), 0, 0, data, nullptr);
      EXPECT_EQ(Matches(*grammar, text), found >= 0) << pattern << " / " << text;
      matched += found >= 0 ? 1 : 0;
    }
    pcre2_match_data_free(data);
    pcre2_code_free(code);
  }
  EXPECT_GT(matched, 500);
}

}  // namespace
}  // namespace ringside
