// Lark grammars as regular expressions: the texts that match, and refusals.
#include "engine/grammar/tools/lark.h"

#include <gtest/gtest.h>

#include <regex>

#include "engine/grammar/grammar_source.h"
#include "engine/grammar/regex.h"

namespace ringside {
namespace {

bool LarkTakes(std::string_view grammar, const std::string& text) {
  const Result<std::string> regex = LarkToRegex(grammar);
  EXPECT_TRUE(regex.ok()) << regex.status().ToString();
  if (!regex.ok()) return false;
  GrammarBudget budget;
  GrammarSource source(budget);
  EXPECT_TRUE(ReadRegex(*regex, &source, {}).ok()) << *regex;
  return std::regex_match(text, std::regex(*regex));
}

constexpr const char* kPatch = R"lark(
start: begin_patch hunk+ end_patch
begin_patch: "*** Begin Patch" LF
end_patch: "*** End Patch" LF?

hunk: add_hunk | delete_hunk | update_hunk
add_hunk: "*** Add File: " filename LF add_line+
delete_hunk: "*** Delete File: " filename LF
update_hunk: "*** Update File: " filename LF change_move? change?

filename: /(.+)/
add_line: "+" /(.*)/ LF -> line

change_move: "*** Move to: " filename LF
change: (change_context | change_line)+ eof_line?
change_context: ("@@" | "@@ " /(.+)/) LF
change_line: ("+" | "-" | " ") /(.*)/ LF
eof_line: "*** End of File" LF

%import common.LF
)lark";

TEST(LarkTest, APatchIsOneExpression) {
  EXPECT_TRUE(LarkTakes(kPatch, "*** Begin Patch\n*** Add File: a.txt\n+one\n+two\n*** End Patch"));
  EXPECT_TRUE(
      LarkTakes(kPatch, "*** Begin Patch\n*** Update File: a\n@@\n-x\n+y\n*** Delete File: b\n*** End Patch\n"));
  EXPECT_FALSE(LarkTakes(kPatch, "*** Begin Patch\n*** End Patch"));
  EXPECT_FALSE(LarkTakes(kPatch, "*** Begin Patch\n*** Add File: a.txt\none\n*** End Patch"));
}

TEST(LarkTest, OperatorsAndLiterals) {
  EXPECT_TRUE(LarkTakes("start: \"a\"~2..3 [\"b\"] // comment\n", "aab"));
  EXPECT_FALSE(LarkTakes("start: \"a\"~2..3 [\"b\"]", "ab"));
  EXPECT_TRUE(LarkTakes("start: \"yes\"i", "YeS"));
  EXPECT_TRUE(LarkTakes("start: (\"a\"..\"c\")+", "abc"));
  EXPECT_FALSE(LarkTakes("start: \"a\"..\"c\"", "d"));
  EXPECT_TRUE(LarkTakes("start: \"(a+b)*\\n\\\"\"", "(a+b)*\n\""));
  EXPECT_TRUE(
      LarkTakes("?start: expr\n  | \"z\"\nexpr.2: NUMBER (\"+\" NUMBER)*\n%import common (NUMBER, WS)", "1+2.5"));
  EXPECT_TRUE(LarkTakes("start: NL\n%import common.LF -> NL", "\n"));
  EXPECT_TRUE(LarkTakes("start: /a\\/b/", "a/b"));
}

TEST(LarkTest, RefusesWhatNoExpressionCanExpress) {
  for (const char* grammar :
       {"", "rule: \"a\"", "start: start", "start: a\na: b\nb: a | \"x\"", "start: \"a\"\n%ignore \" \"",
        "start: a{b}\n", "start: \"a", "start: /a", "start: (\"a\"", "start: missing", "start: /a/i",
        "start: \"a\"~9999999999", "start: \"a\"\nstart: \"b\"", "start: <[12]>", "\"a\"",
        "start: \"a\"\n%import other.X", "start: X\n%import common.NONE"}) {
    EXPECT_EQ(LarkToRegex(grammar).status().code(), StatusCode::kInvalidArgument) << grammar;
  }
  std::string doubles = "start: a0 a0\n";
  for (int i = 0; i < 40; ++i) {
    const std::string next = "a" + std::to_string(i + 1);
    doubles += "a" + std::to_string(i) + ": " + next + " " + next + "\n";
  }
  doubles += "a40: \"x\"";
  EXPECT_FALSE(LarkToRegex(doubles).ok());
  EXPECT_FALSE(LarkToRegex("start: " + std::string(100'000, '(')).ok());
}

}  // namespace
}  // namespace ringside
