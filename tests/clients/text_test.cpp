#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "clients/chat/repl/multi_line.h"
#include "clients/chat/repl/transcript.h"
#include "clients/terminal/line_layout.h"
#include "clients/terminal/sanitiser.h"
#include "clients/terminal/text_width.h"

namespace ringside::client {
namespace {

TEST(TextWidth, CountsColumns) {
  EXPECT_EQ(TextWidth(""), 0);
  EXPECT_EQ(TextWidth("abc"), 3);
  EXPECT_EQ(TextWidth("日本"), 4);
  EXPECT_EQ(TextWidth("e\u0301"), 1);
  EXPECT_EQ(TextWidth("👍"), 2);
  EXPECT_EQ(TextWidth("👩‍👩‍👧"), 2);
  EXPECT_EQ(TextWidth("❤\ufe0f"), 2);
  EXPECT_EQ(TextWidth("🇩🇪"), 2) << "a flag of two regional indicators";
  EXPECT_EQ(TextWidth("🇩🇪🇫🇷x"), 5);
  EXPECT_EQ(TextWidth("👍🏽"), 2) << "a skin tone";
  EXPECT_EQ(TextWidth("👩🏽‍🚀"), 2);
  EXPECT_EQ(TextWidth("🏴‍☠️"), 2);
  EXPECT_EQ(TextWidth("1️⃣"), 2);
}

TEST(LineLayout, CursorFollowsAFlag) {
  const std::string text = "a🇩🇪b";
  EXPECT_EQ(LayOut("> ", ".", text, text.size() - 1, 20).cursor_column, 5);
}

TEST(TextWidth, RejectsOverlongUtf8) {
  for (const char* bad : {"\xc0\xaf", "\xe0\x80\xaf", "\xf0\x80\x80\xaf", "\xed\xa0\x80", "\xf4\x90\x80\x80", "\xff",
                          "\x80", "\xf8\x88\x80\x80\x80"}) {
    EXPECT_FALSE(IsUtf8(bad));
    EXPECT_TRUE(IsUtf8(RepairUtf8(bad)));
  }
  EXPECT_TRUE(IsUtf8("aä日👍\xf4\x8f\xbf\xbf"));
  EXPECT_TRUE(DecodeUtf8("\xe6\x97").cut);
  EXPECT_FALSE(DecodeUtf8("\xe6\x41").cut);
}

TEST(TextWidth, FindsClustersFromBothEnds) {
  const std::string text = "ae\u0301👩‍👧";
  EXPECT_EQ(FirstCluster(text), 1u);
  EXPECT_EQ(LastCluster(text), std::string("👩‍👧").size());
  EXPECT_EQ(LastCluster("a\n"), 1u);
  EXPECT_EQ(FirstCluster(""), 0u);
  EXPECT_EQ(LastCluster(""), 0u);
}

TEST(Sanitiser, KeepsTextNewlinesAndTabs) { EXPECT_EQ(Sanitise("a\tb\nc ä日👍 e\u0301"), "a\tb\nc ä日👍 e\u0301"); }

TEST(Sanitiser, DropsEveryControlCharacter) {
  for (int c = 0; c < 0x20; ++c) {
    const std::string text = "a" + std::string(1, static_cast<char>(c)) + "b";
    EXPECT_EQ(Sanitise(text), c == '\n' || c == '\t' ? text : "ab") << c;
  }
  EXPECT_EQ(Sanitise("a\x7f"), "a");
  for (uint32_t c = 0x80; c < 0xA0; ++c) {
    std::string text = "a";
    AppendUtf8(text, c);
    EXPECT_EQ(Sanitise(text + "b"), "ab") << c;
  }
  EXPECT_EQ(Sanitise("\x1b[31mred\x1b]0;title\x07"), "[31mred]0;title");
  EXPECT_EQ(Sanitise("\x9b"
                     "31m"),
            "\uFFFD31m");
}

TEST(Sanitiser, DropsBidirectionalOverrides) {
  EXPECT_EQ(Sanitise("a\u202Ab\u202Bc\u202Cd\u202De\u202Ef\u2066g\u2067h\u2068i\u2069j"), "abcdefghij");
  EXPECT_EQ(Sanitise("שלום"), "שלום");
}

TEST(Sanitiser, ResultIsIndependentOfChunks) {
  const std::string text = "a\x1b[1m\u009bä日\u202e👍\xff\xe6\x97z\r\n";
  const std::string whole = Sanitise(text);
  for (size_t cut = 0; cut <= text.size(); ++cut) {
    Sanitiser sanitiser;
    std::string pieces = sanitiser.Push(std::string_view(text).substr(0, cut));
    pieces += sanitiser.Push(std::string_view(text).substr(cut));
    EXPECT_EQ(pieces + sanitiser.Finish(), whole) << cut;
  }
  Sanitiser sanitiser;
  std::string bytes;
  for (const char byte : text) bytes += sanitiser.Push(std::string_view(&byte, 1));
  EXPECT_EQ(bytes + sanitiser.Finish(), whole);
}

TEST(Sanitiser, ReplacesATruncatedCharacter) { EXPECT_EQ(Sanitise("a\xe6\x97"), "a\uFFFD\uFFFD"); }

TEST(MultiLine, SingleLineIsTheInput) {
  MultiLine lines;
  EXPECT_EQ(lines.Push("hello"), "hello");
  EXPECT_EQ(lines.Push(""), "");
  EXPECT_FALSE(lines.open());
}

TEST(MultiLine, TripleQuotesSpanLines) {
  MultiLine lines;
  EXPECT_EQ(lines.Push("\"\"\""), std::nullopt);
  EXPECT_TRUE(lines.open());
  EXPECT_EQ(lines.Push("one"), std::nullopt);
  EXPECT_EQ(lines.Push("/two \\"), std::nullopt);
  EXPECT_EQ(lines.Push("\"\"\""), "one\n/two \\");
  EXPECT_FALSE(lines.open());
}

TEST(MultiLine, TripleQuotesWithAdjacentText) {
  MultiLine lines;
  EXPECT_EQ(lines.Push("\"\"\"one"), std::nullopt);
  EXPECT_EQ(lines.Push("two\"\"\""), "one\ntwo");
  EXPECT_EQ(lines.Push("\"\"\"all on one line\"\"\""), "all on one line");
  EXPECT_EQ(lines.Push("say \"\"\" in the middle"), "say \"\"\" in the middle");
}

TEST(MultiLine, ABackslashJoinsTheNextLine) {
  MultiLine lines;
  EXPECT_EQ(lines.Push("one\\"), std::nullopt);
  EXPECT_TRUE(lines.open());
  EXPECT_EQ(lines.Push("two\\"), std::nullopt);
  EXPECT_EQ(lines.Push("three"), "one\ntwo\nthree");
}

TEST(MultiLine, PastedTextIsOneInput) {
  MultiLine lines;
  EXPECT_EQ(lines.Push("int main() {\\\n}\\"), "int main() {\\\n}\\");
  EXPECT_EQ(lines.Push("\"\"\"a\nb\"\"\""), "a\nb");
}

TEST(MultiLine, ClearResets) {
  MultiLine lines;
  EXPECT_EQ(lines.Push("\"\"\"one"), std::nullopt);
  lines.Clear();
  EXPECT_EQ(lines.Push("two"), "two");
}

TEST(LineLayout, PlacesTheCursorEverywhere) {
  const std::string text = "ab\ncd";
  const std::pair<size_t, int> places[] = {{0, 2}, {0, 3}, {0, 4}, {1, 1}, {1, 2}, {1, 3}};
  for (size_t cursor = 0; cursor <= text.size(); ++cursor) {
    const LineLayout layout = LayOut("> ", ".", text, cursor, 20);
    EXPECT_EQ(layout.cursor_row, places[cursor].first) << cursor;
    EXPECT_EQ(layout.cursor_column, places[cursor].second) << cursor;
  }
}

TEST(LineLayout, ControlCharactersAreShownAsCarets) {
  EXPECT_EQ(LayOut("", "", std::string("a\x1b\tb"), 0, 20).rows[0].text, "a^[    b");
}

TEST(Transcript, IsMarkdownAndNeverOverwrites) {
  const std::vector<InputMessage> items = {{"user", "hi"}, {"assistant", "hello"}};
  const std::string markdown = TranscriptMarkdown({.id = "conv_a"}, items);
  EXPECT_EQ(markdown, "# conv_a\n\n## You\n\nhi\n\n## Assistant\n\nhello\n");
  const std::string path = ::testing::TempDir() + "/transcript_test.md";
  std::remove(path.c_str());
  ASSERT_TRUE(WriteNewFile(path, markdown).ok());
  std::stringstream read;
  read << std::ifstream(path).rdbuf();
  EXPECT_EQ(read.str(), markdown);
  EXPECT_FALSE(WriteNewFile(path, "").ok());
  EXPECT_FALSE(WriteNewFile("/no/such/folder/x.md", markdown).ok());
  std::remove(path.c_str());
}

TEST(Transcript, HasTheSystemMessageAndTheTitle) {
  const ConversationSummary conversation{.id = "conv_a", .metadata = {{"title", "Rain"}}, .instructions = "Be brief."};
  const std::vector<InputMessage> items = {{"user", "hi"}, {"assistant", "hel", false, "Hm"}};
  EXPECT_THAT(TranscriptMarkdown(conversation, items),
              ::testing::StartsWith("# Rain\n\n## System\n\nBe brief.\n\n## You\n\nhi\n"));
  const auto json = nlohmann::json::parse(TranscriptJson(conversation, items));
  EXPECT_EQ(json["id"], "conv_a");
  EXPECT_EQ(json["title"], "Rain");
  ASSERT_EQ(json["messages"].size(), 3u);
  EXPECT_EQ(json["messages"][0]["role"], "system");
  EXPECT_EQ(json["messages"][0]["content"], "Be brief.");
  EXPECT_EQ(json["messages"][1]["complete"], true);
  EXPECT_EQ(json["messages"][2]["complete"], false);
  EXPECT_EQ(json["messages"][2]["reasoning"], "Hm");
  EXPECT_FALSE(json["messages"][1].contains("reasoning"));
}

TEST(Transcript, HasTheImages) {
  const InputMessage message{.role = "user", .text = "Which?", .images = {"data:image/png;base64,YQ==", "data:b"}};
  EXPECT_EQ(TranscriptMarkdown({.id = "conv_a"}, {message}),
            "# conv_a\n\n## You\n\n![Image 1](data:image/png;base64,YQ==)\n\n![Image 2](data:b)\n\nWhich?\n");
  const auto json = nlohmann::json::parse(TranscriptJson({.id = "conv_a"}, {message, {"assistant", "a"}}));
  EXPECT_EQ(json["messages"][0]["images"], nlohmann::json(message.images));
  EXPECT_FALSE(json["messages"][1].contains("images"));
  EXPECT_EQ(WithImageCount(message), "[2 images] Which?");
  EXPECT_EQ(WithImageCount({.role = "user", .text = "", .images = {"data:b"}}), "[image] ");
  EXPECT_EQ(WithImageCount({"user", "hi"}), "hi");
}

TEST(Transcript, TitleIsTheFirstWords) {
  EXPECT_EQ(TitleOf("\n  Why is the sky blue?"), "Why is the sky blue?");
  EXPECT_EQ(TitleOf("one\ntwo"), "one…");
  EXPECT_EQ(TitleOf(" \n"), "");
  EXPECT_EQ(TitleOf("a\x1b[31mb"), "a[31mb");
  std::string accents = "e";
  for (int i = 0; i < 400; ++i) accents += "\u0301";
  EXPECT_LE(TitleOf(accents).size(), 512u) << "no more than a value of metadata may have";
}

TEST(Transcript, FirstLineIsShort) {
  EXPECT_EQ(FirstLine("short"), "short");
  EXPECT_EQ(FirstLine("one\ntwo"), "one…");
  EXPECT_EQ(TextWidth(FirstLine(std::string(500, 'x'))), 61);
}

}  // namespace
}  // namespace ringside::client
