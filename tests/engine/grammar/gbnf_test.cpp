#include "engine/grammar/gbnf.h"

#include "base/limits.h"
#include "tests/engine/grammar/grammar_harness.h"

namespace ringside {
namespace {

bool GbnfMatches(const std::string& text, std::string_view answer) {
  const auto grammar = Compile(AnswerFormat::Kind::kGbnf, text);
  EXPECT_TRUE(grammar.ok()) << text << ": " << grammar.status().message();
  return grammar.ok() && Matches(*grammar, answer);
}

TEST(Gbnf, Notation) {
  struct Case {
    const char* grammar;
    std::vector<const char*> match, others;
  };
  const Case cases[] = {
      {"root ::= \"yes\" | \"no\"", {"yes", "no"}, {"", "yesno"}},
      {"# a comment\nroot ::= word (\", \" word)* # another\nword ::= [a-z]+\n", {"a", "ab, c"}, {"", "a,b", "a, "}},
      {"root ::=\n  \"a\" |\n  \"b\"\n\nx ::= \"c\"", {"a", "b"}, {"c"}},
      {"root ::= (\n \"a\"\n \"b\"\n)+", {"ab", "abab"}, {"a"}},
      {"root ::= [^\"\\\\\\x00-\\x1f]{2,4}", {"ab", "\xC3\xA9\xC3\xA9\xC3\xA9"}, {"a", "a\"", "abcde"}},
      {"root ::= .{2}", {"ab", "\n\xE2\x82\xAC"}, {"a"}},
      {"root ::= \"\\x41\\u00e9\\U0001F600\\n\\\"\"", {"A\xC3\xA9\xF0\x9F\x98\x80\n\""}, {"A"}},
      {"root ::= a? b{2} c{,2} d{1,}\na::=\"a\"\nb ::= \"b\"\nc ::= \"c\"\nd ::= \"d\"",
       {"abbd", "bbccdd"},
       {"abd", "bbcccd"}},
      // Nested to any depth, which a regular expression cannot describe.
      {"root ::= \"(\" root \")\" | \"x\"", {"x", "((x))", "(((((x)))))"}, {"(x", "((x)", "()"}},
      {"root ::= \"a\" root \"a\" | \"b\" root \"b\" | \"c\"", {"c", "abcba", "aabcbaa"}, {"abcab"}},
      // Ambiguous, and with rules that may be empty.
      {"root ::= e e e\ne ::= \"a\"*", {"", "a", "aaaaaa"}, {"b"}},
      {"root ::= s\ns ::= \"a\" s \"b\" | \"a\" s \"c\" | \"\"", {"", "aabc", "aaabcb"}, {"a", "aab"}},
      {"root ::= item+\nitem ::= opt opt \"x\"\nopt ::= \"y\"?", {"x", "yyx", "yxx"}, {"y", "yyyx"}},
  };
  for (const Case& one : cases) {
    for (const char* text : one.match) EXPECT_TRUE(GbnfMatches(one.grammar, text)) << one.grammar << " / " << text;
    for (const char* text : one.others) EXPECT_FALSE(GbnfMatches(one.grammar, text)) << one.grammar << " / " << text;
  }
}

TEST(Gbnf, RefusesByName) {
  const std::pair<const char*, const char*> cases[] = {
      {"", "no rule 'root'"},
      {"a ::= \"x\"", "no rule 'root'"},
      {"root ::= a", "'a' is used but not defined"},
      {"root ::= \"a\"\nroot ::= \"b\"", "defined twice"},
      {"root := \"a\"", "'::=' is missing"},
      {"root ::= \"a", "unclosed"},
      {"root ::= [a", "unclosed"},
      {"root ::= (\"a\"", "')' is missing"},
      {"root ::= \"a\" )", "unexpected"},
      {"root ::= root \"a\" | \"b\"", "left recursion"},
      {"root ::= a \"x\" | \"y\"\na ::= \"b\"? root", "left recursion"},
      {"root ::= \"a\"**", "quantifier"},
      {"root ::= \"a\"{2,1}", "m above n"},
      {"root ::= \"a\"{x}", "does not start"},
      {"root ::= \"\\q\"", "unknown escape"},
      {"root ::= \"a\" root", "matches no text"},
      {"root ::= <think> \"a\"", "tokens"},
      {"root ::= (((\"a\"{1000}){1000}){1000})", "too large"}};
  for (const auto& [text, why] : cases) {
    const auto grammar = Compile(AnswerFormat::Kind::kGbnf, text);
    ASSERT_FALSE(grammar.ok()) << text;
    EXPECT_NE(grammar.status().message().find(why), std::string::npos) << text << ": " << grammar.status().message();
  }
  EXPECT_NE(Compile(AnswerFormat::Kind::kGbnf, "root ::= \"a\"\n\nb ::= %").status().message().find("line 3"),
            std::string::npos);
}

// The prefix has exponentially many parses; the state stays small.
TEST(Gbnf, AmbiguityCostsLittle) {
  const auto grammar = Compile(AnswerFormat::Kind::kGbnf, "root ::= s\ns ::= \"a\" s \"b\" | \"a\" s \"c\" | \"d\"");
  ASSERT_TRUE(grammar.ok());
  GrammarMatcher matcher(*grammar);
  EXPECT_TRUE(matcher.Append(std::string(2000, 'a') + "d" + std::string(1999, 'b')).ok());
  EXPECT_FALSE(matcher.may_end());
  EXPECT_TRUE(matcher.Append("c").ok());
  EXPECT_TRUE(matcher.may_end());
  EXPECT_FALSE(matcher.may_continue());
}

// A loop over a vocabulary of a thousand words follows a single path.
TEST(Gbnf, ManyLiteralsCostLittle) {
  std::string text = "root ::= (\"\" | digits";
  for (int i = 0; i < 1000; ++i) text += " | \"w" + std::to_string(i * 7919) + " \"";
  text += ")+ \"!\"\ndigits ::= [0-9]+";
  const auto grammar = Compile(AnswerFormat::Kind::kGbnf, text);
  ASSERT_TRUE(grammar.ok()) << grammar.status().message();
  EXPECT_TRUE(Matches(*grammar, "w7919 w0 12w15838 !"));
  EXPECT_TRUE(Matches(*grammar, "!"));
  EXPECT_FALSE(Matches(*grammar, "w7918 !"));
  GrammarMatcher matcher(*grammar);
  std::vector<uint32_t> mask(static_cast<size_t>(TestTokenizer().vocab_size() + 31) / 32);
  for (const char c : std::string("w7919 w0 ")) {
    ASSERT_TRUE(matcher.FillMask(mask).ok());
    ASSERT_TRUE(matcher.Take(static_cast<uint8_t>(c)).ok());
    EXPECT_GE(matcher.work_left(), limits::kMaxGrammarWorkAtOnce - 10'000);
  }
}

// A chain of rules with two paths from each to the next: 2^40 paths to the last.
TEST(Gbnf, DiamondsCostLittle) {
  std::string text = "root ::= r0\n";
  for (int i = 0; i < 40; ++i) {
    const std::string n = std::to_string(i), next = "r" + std::to_string(i + 1);
    text += "r" + n + " ::= a" + n + " \"x\" | b" + n + " \"x\"\na" + n + " ::= " + next + "\nb" + n + " ::= " + next +
            "\n";
  }
  text += "r40 ::= \"end\"\n";
  EXPECT_TRUE(GbnfMatches(text, "end" + std::string(40, 'x')));
  EXPECT_FALSE(GbnfMatches(text, "end" + std::string(39, 'x')));
}

}  // namespace
}  // namespace ringside
