// Streaming answers on a terminal: Markdown rendering and line wrapping.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "clients/terminal/markdown.h"
#include "clients/terminal/text_flow.h"
#include "clients/terminal/text_width.h"
#include "tests/clients/virtual_screen.h"

namespace ringside::client {
namespace {

using ::testing::ElementsAre;
using Style = StyledText::Style;

/// Translates newlines as a terminal driver does.
std::string OnTerminal(std::string_view bytes) {
  std::string out;
  for (const char c : bytes) out += c == '\n' ? "\r\n" : std::string(1, c);
  return out;
}

/// The screen after a text that arrives in pieces of `piece_bytes` bytes, split between characters.
std::vector<std::string> Flowed(std::string_view text, size_t piece_bytes, int columns, int hang = 0) {
  VirtualScreen screen(columns);
  TextFlow flow(true);
  while (!text.empty()) {
    size_t bytes = 0;
    while (bytes < text.size() && bytes < piece_bytes) bytes += FirstCluster(text.substr(bytes));
    screen.Write(OnTerminal(flow.Put(text.substr(0, bytes), "\x1b[1m", hang, columns)));
    EXPECT_EQ(screen.column(), flow.column());
    text.remove_prefix(bytes);
  }
  return screen.rows();
}

TEST(TextFlow, BreaksAtWordsForAnyChunks) {
  for (const size_t piece : {1, 2, 3, 7, 100}) {
    EXPECT_THAT(Flowed("The quick brown fox jumps over it", piece, 12),
                ElementsAre("The quick", "brown fox", "jumps over", "it"))
        << piece;
    EXPECT_THAT(Flowed("exactly ten columns, ten", piece, 10), ElementsAre("exactly", "ten", "columns,", "ten"));
    EXPECT_THAT(Flowed("0123456789 0123456789\nx", piece, 10), ElementsAre("0123456789", "0123456789", "x"));
    EXPECT_THAT(Flowed("a verylongwordofmany parts", piece, 8), ElementsAre("a", "verylong", "wordofma", "ny parts"));
    EXPECT_THAT(Flowed("one\n\ntwo", piece, 8), ElementsAre("one", "", "two"));
  }
}

TEST(TextFlow, BreaksBetweenWideCharacters) {
  for (const size_t piece : {1, 4, 100}) {
    EXPECT_THAT(Flowed("ab日本語の", piece, 7), ElementsAre("ab日本", "語の"));
    EXPECT_THAT(Flowed("abc 🇩🇪🇩🇪", piece, 7), ElementsAre("abc 🇩🇪", "🇩🇪"));
  }
}

TEST(TextFlow, WrappedLineIsIndented) {
  for (const size_t piece : {1, 5, 100}) {
    EXPECT_THAT(Flowed("• one two three", piece, 10, 2), ElementsAre("• one two", "  three"));
  }
}

TEST(TextFlow, PrintsWithoutBacktrackingIfEscapesAreOff) {
  TextFlow flow(false);
  EXPECT_EQ(flow.Put("ab cdefgh", "", 0, 6), "ab cde\nfgh");
}

TEST(WrapText, BreaksLinesAndTables) {
  EXPECT_EQ(WrapText("one two three", 8, false), "one two\nthree");
  EXPECT_EQ(WrapText("one\n\n  two three", 7, false), "one\n\n  two\nthree");
  EXPECT_EQ(WrapText("  /regen  answer the last message again", 24, true),
            "  /regen  answer the\n          last message\n          again");
  EXPECT_EQ(WrapText("short", 80, true), "short");
  EXPECT_EQ(WrapText("", 80, true), "");
  EXPECT_EQ(WrapText("averylongword", 5, false), "averylongword")
      << "where there is no place to break, the terminal does";
}

/// "text" for plain pieces, "<style text>" for others; adjacent pieces of one style are joined.
std::string Shown(std::string_view text, size_t piece_bytes) {
  Markdown markdown;
  std::vector<StyledText> all;
  const auto take = [&all](std::vector<StyledText> pieces) {
    for (StyledText& piece : pieces) {
      if (!all.empty() && all.back().style == piece.style) {
        all.back().text += piece.text;
      } else {
        all.push_back(std::move(piece));
      }
    }
  };
  for (size_t at = 0; at < text.size(); at += piece_bytes) take(markdown.Push(text.substr(at, piece_bytes)));
  take(markdown.Finish());
  std::string shown;
  for (const StyledText& piece : all) {
    shown += piece.style == Style::kPlain ? piece.text : "<" + std::to_string(piece.style) + " " + piece.text + ">";
  }
  return shown;
}

TEST(Markdown, RenderingIsIndependentOfChunks) {
  const std::pair<const char*, const char*> cases[] = {
      {"plain text\nof two lines", "plain text\nof two lines"},
      {"a **bold** word", "a <1 bold> word"},
      {"an *italic* and _another_ one", "an <2 italic> and <2 another> one"},
      {"***both***", "<3 both>"},
      {"**bold with *italic* in it**", "<1 bold with ><3 italic><1  in it>"},
      {"~~struck~~ out", "<4 struck> out"},
      {"use `a*b*c` here", "use <8 a*b*c> here"},
      {"``a ` b``", "<8 a ` b>"},
      {"# Heading\ntext", "<16 Heading>\ntext"},
      {"### Heading with **bold**\n", "<16 Heading with ><17 bold>\n"},
      {"- one\n* two\n+ three", "• one\n• two\n• three"},
      {"  - inner", "  • inner"},
      {"1. one\n2) two", "1. one\n2) two"},
      {"> quoted **bold**\nnot", "<64 │ >quoted <1 bold>\nnot"},
      {"[the site](https://example.org/a_b_c) is", "<32 the site><64  (https://example.org/a_b_c)> is"},
      {"![a cat](cat.png)", "<32 a cat><64  (cat.png)>"},
      {"---\n", "<64 --->\n"},
      {"```python\nx = 1  # *no* `mark`\n```\n*after*",
       "<64 ```python>\n<8 x = 1  # *no* `mark`>\n<64 ```>\n<2 after>"},
      {"~~~\n```\n~~~\n", "<64 ~~~>\n<8 ```>\n<64 ~~~>\n"},
      {"\\*not italic\\* and a\\b", "*not italic* and a\\b"},
      {"Two:\n| a | Name |\n|--:|:--|\n| 1 | **x** |\n| 22 | `y|` \\| |\nafter",
       "Two:\n <1 a><64  │ ><1 Name>\n<64 ───┼─────>\n 1<64  │ ><1 x>\n22<64  │ >`y\nafter"},
      {"| a | b |\n| - | :-: |\n| 日本 | c |\n|d",
       "<1 a>   <64  │ ><1 b>\n<64 ─────┼──>\n日本<64  │ >c\nd   <64  │ >\n"},
  };
  for (const auto& [text, wanted] : cases) {
    for (const size_t piece : {1, 2, 3, 5, 1000}) EXPECT_EQ(Shown(text, piece), wanted) << text << " by " << piece;
  }
}

/// The shown text without styles.
std::string Plain(std::string_view text, size_t piece_bytes) {
  Markdown markdown;
  std::string shown;
  for (size_t at = 0; at < text.size(); at += piece_bytes) {
    for (const StyledText& piece : markdown.Push(text.substr(at, piece_bytes))) shown += piece.text;
  }
  for (const StyledText& piece : markdown.Finish()) shown += piece.text;
  return shown;
}

TEST(Markdown, KeepsUnmarkedText) {
  for (const char* text : {"2 * 3 * 4 and 2*3*4",
                           "snake_case_name",
                           "a ** b",
                           "an unclosed **bold",
                           "an unclosed `code",
                           "[not a link] and [x](",
                           "**",
                           "*",
                           "_",
                           "`",
                           "#",
                           "#tag",
                           "-",
                           "--",
                           "1",
                           "1.",
                           "1.5 is",
                           "12345678901. no",
                           "```",
                           "~",
                           "~~",
                           "5 < 6 > 4",
                           "!",
                           "Hello!",
                           "a * b\nc * d",
                           "*a\nb*",
                           "\\",
                           "|",
                           "| a bar\nand text",
                           "| a | b |\n| c | d |\n",
                           "| a | b |\n| - |\n",
                           "a\n",
                           "\n\n",
                           "   "}) {
    for (const size_t piece : {1, 2, 1000}) EXPECT_EQ(Plain(text, piece), text) << " by " << piece;
  }
}

TEST(Markdown, ShowsUnmarkedTextImmediately) {
  Markdown markdown;
  const auto texts = [](const std::vector<StyledText>& pieces) {
    std::string text;
    for (const StyledText& piece : pieces) text += piece.text;
    return text;
  };
  EXPECT_EQ(texts(markdown.Push("The sky")), "The sky");
  EXPECT_EQ(texts(markdown.Push(" is **bl")), " is ");
  EXPECT_EQ(texts(markdown.Push("ue** to")), "blue to");
  EXPECT_EQ(texts(markdown.Push(" us\n")), " us\n");
}

TEST(Markdown, UnclosedMarkIsHeldBackBriefly) {
  Markdown markdown;
  size_t shown = 0;
  for (int i = 0; i < 1000; ++i) {
    for (const StyledText& piece : markdown.Push(i == 0 ? "**bold " : "word ")) shown += piece.text.size();
  }
  EXPECT_GT(shown, 2500u);
}

TEST(Markdown, ReportsIndentationOfListsAndQuotes) {
  Markdown markdown;
  const auto pieces = markdown.Push("  - item\n");
  ASSERT_GE(pieces.size(), 2u);
  EXPECT_EQ(pieces[1].text, "item");
  EXPECT_EQ(pieces[1].hang, 4);
  EXPECT_EQ(markdown.Push("plain\n")[0].hang, 0);
}

}  // namespace
}  // namespace ringside::client
