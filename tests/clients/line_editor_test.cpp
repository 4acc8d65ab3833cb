#include "clients/terminal/line_editor.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "clients/chat/repl/completion.h"
#include "tests/clients/virtual_screen.h"

namespace ringside::client {
namespace {

using Result = LineEditor::Result;
using ::testing::ElementsAre;

/// An editor, bytes typed into it, and a screen that shows it.
class Typist {
 public:
  explicit Typist(int columns = 40, int rows = 20, std::vector<std::string> history = {})
      : size_{columns, rows},
        screen(columns),
        editor(history_, [](std::string_view line) { return CompleteLine(line, {}); }) {
    for (const std::string& entry : history) history_.Add(entry);
    editor.Begin(">>> ", "... ");
    screen.Write(editor.Draw(size_));
  }
  /// Returns the result of the last key.
  Result Type(std::string_view bytes) {
    Result result = Result::kEditing;
    for (const Key& key : decoder_.Push(bytes)) {
      result = editor.Handle(key);
      screen.Write(editor.Draw(size_));
    }
    return result;
  }
  void Leave() { screen.Write(editor.Leave(size_)); }
  const std::string& text() const { return editor.text(); }

 private:
  History history_;
  KeyDecoder decoder_;
  ScreenSize size_;

 public:
  VirtualScreen screen;
  LineEditor editor;
};

TEST(LineEditor, TypingShowsAndMovesTheCursor) {
  Typist typist;
  typist.Type("hello");
  EXPECT_EQ(typist.text(), "hello");
  EXPECT_THAT(typist.screen.rows(), ElementsAre(">>> hello"));
  EXPECT_EQ(typist.screen.column(), 9);
  typist.Type("\x1b[D\x1b[D");
  EXPECT_EQ(typist.screen.column(), 7);
  typist.Type("XY");
  EXPECT_THAT(typist.screen.rows(), ElementsAre(">>> helXYlo"));
  EXPECT_EQ(typist.Type("\r"), Result::kAccepted);
}

TEST(LineEditor, HomeEndAndDeleteKeys) {
  Typist typist;
  typist.Type("abcdef\x01");
  EXPECT_EQ(typist.editor.cursor(), 0u);
  typist.Type("\x04\x1b[3~");
  EXPECT_EQ(typist.text(), "cdef");
  typist.Type("\x05\x7f\x08");
  EXPECT_EQ(typist.text(), "cd");
  typist.Type("\x1b[H1\x1b[F2\x1bOH3\x1bOF4\x1b[1~5\x1b[4~6");
  EXPECT_EQ(typist.text(), "531cd246");
}

TEST(LineEditor, KillsAndYanks) {
  Typist typist;
  typist.Type("one two three\x17");
  EXPECT_EQ(typist.text(), "one two ");
  typist.Type("\x19\x19");
  EXPECT_EQ(typist.text(), "one two threethree");
  typist.Type("\x15");
  EXPECT_EQ(typist.text(), "");
  typist.Type("\x19\x01\x1b[C\x1b[C\x1b[C\x0b");
  EXPECT_EQ(typist.text(), "one");
}

TEST(LineEditor, WordMotions) {
  Typist typist;
  typist.Type("one two-three\x1b[1;5D");
  EXPECT_EQ(typist.editor.cursor(), 8u);
  typist.Type(
      "\x1b"
      "b");
  EXPECT_EQ(typist.editor.cursor(), 4u);
  typist.Type("\x1b[1;3C");
  EXPECT_EQ(typist.editor.cursor(), 7u);
  typist.Type(
      "\x1b"
      "d");
  EXPECT_EQ(typist.text(), "one two");
}

TEST(LineEditor, WideAndCombiningCharactersAreOneStep) {
  Typist typist;
  typist.Type("日本e\u0301👩‍👩‍👧");
  EXPECT_EQ(typist.screen.column(), 4 + 2 + 2 + 1 + 2);
  typist.Type("\x7f");
  EXPECT_EQ(typist.text(), "日本e\u0301");
  typist.Type("\x7f");
  EXPECT_EQ(typist.text(), "日本");
  typist.Type("\x1b[D");
  EXPECT_EQ(typist.screen.column(), 6);
  typist.Type("\x04");
  EXPECT_EQ(typist.text(), "日");
}

TEST(LineEditor, CharactersMayArriveBytewise) {
  Typist typist;
  for (const char byte : std::string("ä日👍")) typist.Type(std::string_view(&byte, 1));
  EXPECT_EQ(typist.text(), "ä日👍");
  for (const char byte : std::string("\x1b[D\x1b[D\x1b[3~")) typist.Type(std::string_view(&byte, 1));
  EXPECT_EQ(typist.text(), "ä👍");
}

TEST(LineEditor, LongLinesWrapAndTheCursorFollows) {
  Typist typist(10);
  typist.Type("abcdefghijklmnop");
  EXPECT_THAT(typist.screen.rows(), ElementsAre(">>> abcdef", "ghijklmnop"));
  EXPECT_EQ(typist.screen.row(), 2);  // after a full row
  EXPECT_EQ(typist.screen.column(), 0);
  typist.Type("q\x01Z");
  EXPECT_THAT(typist.screen.rows(), ElementsAre(">>> Zabcde", "fghijklmno", "pq"));
  EXPECT_EQ(typist.screen.row(), 0);
  EXPECT_EQ(typist.screen.column(), 5);
  typist.Type("\x15\x0b");
  EXPECT_THAT(typist.screen.rows(), ElementsAre(">>>"));
}

TEST(LineEditor, WideCharacterIsNotSplitAtTheMargin) {
  Typist typist(8);
  typist.Type("abc日x");
  EXPECT_THAT(typist.screen.rows(), ElementsAre(">>> abc", "日x"));
}

TEST(LineEditor, TallTextScrollsToTheCursor) {
  Typist typist(10, 4);
  typist.Type("\x1b[200~1\n2\n3\n4\n5\n6\n7\n8\x1b[201~");
  EXPECT_LE(typist.screen.rows().size(), 4u);
  EXPECT_EQ(typist.screen.rows().back(), "... 8");
  typist.Type("\x1b[A\x1b[A\x1b[A\x1b[A\x1b[A\x1b[A\x1b[A");
  EXPECT_EQ(typist.screen.rows().front(), ">>> 1");
}

TEST(LineEditor, RedrawsAfterTheTerminalBecameNarrower) {
  Typist typist(20);
  typist.Type("abcdefghijklmn");
  // The terminal wraps ">>> abcdefghijklmn" (18 columns) into two rows of 10 by itself; the cursor stays after the n.
  VirtualScreen narrow(10);
  narrow.Write(">>> abcdef\r\nghijklmn");
  narrow.Write(typist.editor.Draw({10, 20}));
  EXPECT_THAT(narrow.rows(), ElementsAre(">>> abcdef", "ghijklmn"));
}

TEST(LineEditor, PasteKeepsNewlinesAndDropsControlCharacters) {
  Typist typist;
  EXPECT_EQ(typist.Type("\x1b[200~one\r\ntwo\rthree\n\tfour\x1b[31m\x07\x03\x1b[201~"), Result::kEditing);
  EXPECT_EQ(typist.text(), "one\ntwo\nthree\n\tfour[31m");
  EXPECT_THAT(typist.screen.rows(), ElementsAre(">>> one", "... two", "... three", "...     four[31m"));
  EXPECT_EQ(typist.Type("\r"), Result::kAccepted);
}

TEST(LineEditor, PasteMayArriveInPieces) {
  Typist typist;
  for (const char byte : std::string("\x1b[200~a\nb\x1b[201~c")) typist.Type(std::string_view(&byte, 1));
  EXPECT_EQ(typist.text(), "a\nbc");
}

TEST(LineEditor, UpAndDownMoveWithinMultilineInput) {
  Typist typist;
  typist.Type("long line\x1b\rab\x1b\rthird");
  EXPECT_EQ(typist.text(), "long line\nab\nthird");
  typist.Type("\x1b[A");
  EXPECT_EQ(typist.editor.cursor(), 12u);  // the end of the shorter line
  typist.Type("\x1b[A\x1b[B\x1b[B");
  EXPECT_EQ(typist.screen.row(), 2);
}

TEST(LineEditor, HistoryWalksTheEntriesWithTheTypedPrefix) {
  Typist typist(40, 20, {"apple", "banana", "apricot", "cherry"});
  typist.Type("ap\x1b[A");
  EXPECT_EQ(typist.text(), "apricot");
  typist.Type("\x1b[A");
  EXPECT_EQ(typist.text(), "apple");
  typist.Type("\x1b[A");
  EXPECT_EQ(typist.text(), "apple");
  typist.Type("\x1b[B\x1b[B");
  EXPECT_EQ(typist.text(), "ap");
  typist.Type("\x15\x10");
  EXPECT_EQ(typist.text(), "cherry");
  typist.Type("\x0e");
  EXPECT_EQ(typist.text(), "");
}

TEST(LineEditor, ControlRSearchesBackwards) {
  Typist typist(40, 20, {"first cat", "dog", "second cat", "bird"});
  typist.Type(
      "\x12"
      "cat");
  EXPECT_EQ(typist.text(), "second cat");
  EXPECT_THAT(typist.screen.rows(), ElementsAre("(search) cat: second cat"));
  typist.Type("\x12");
  EXPECT_EQ(typist.text(), "first cat");
  EXPECT_EQ(typist.Type("\r"), Result::kAccepted);
  EXPECT_EQ(typist.text(), "first cat");
}

TEST(LineEditor, LeavingControlRRestoresTheInput) {
  Typist typist(40, 20, {"cat"});
  typist.Type(
      "own\x12"
      "c\x03");
  EXPECT_EQ(typist.text(), "own");
  typist.Type("\x12\x7f\x7f");
  EXPECT_EQ(typist.text(), "own");
}

TEST(LineEditor, InterruptAndEndOfInput) {
  Typist typist;
  EXPECT_EQ(typist.Type("\x03"), Result::kInterrupted);
  EXPECT_EQ(typist.Type("a\x03"), Result::kInterrupted);
  EXPECT_EQ(typist.Type("\x04"), Result::kEditing);  // with text present, Ctrl-D deletes
  typist.Type("\x15");
  EXPECT_EQ(typist.Type("\x04"), Result::kEndOfInput);
  EXPECT_EQ(typist.Type("\x0c"), Result::kClearScreen);
}

TEST(LineEditor, LeaveMovesBelowTheText) {
  Typist typist(10);
  typist.Type("abcdefgh\x01");
  typist.Leave();
  EXPECT_EQ(typist.screen.row(), 2);
  EXPECT_EQ(typist.screen.column(), 0);
}

TEST(LineEditor, TabCompletesCommands) {
  Typist typist;
  typist.Type("/sta\t");
  EXPECT_EQ(typist.text(), "/stats ");
  typist.Type("\x15/re\t");
  EXPECT_EQ(typist.text(), "/re");
  EXPECT_EQ(typist.Type("\t"), Result::kShowCandidates);
  EXPECT_THAT(typist.editor.candidates(), ElementsAre("/regen", "/rewind ", "/read ", "/resume "));
  typist.Type("\x15/set temp\t");
  EXPECT_EQ(typist.text(), "/set temperature ");
  typist.Type("\x15hello\t");
  EXPECT_EQ(typist.text(), "hello");
}

TEST(LineEditor, UnknownSequencesAreIgnored) {
  Typist typist;
  typist.Type("a\x1b[15~\x1b[1;2P\x1b[99;99~\x1b[Ob\x1bOPc\x1bqd\xc2\x9b");
  EXPECT_EQ(typist.text(), "abcd");
  typist.Type("\x1b[" + std::string(40, '1') + "x");
  typist.Type("\x1b[D");
  EXPECT_FALSE(typist.text().empty());
}

TEST(KeyDecoder, LoneEscapeTimesOut) {
  KeyDecoder decoder;
  EXPECT_TRUE(decoder.Push("\x1b").empty());
  EXPECT_TRUE(decoder.waiting());
  decoder.Flush();
  EXPECT_FALSE(decoder.waiting());
  const std::vector<Key> keys = decoder.Push("[");
  ASSERT_EQ(keys.size(), 1u);
  EXPECT_EQ(keys[0].text, "[");
}

TEST(KeyDecoder, OverlongEscapeSequenceIsIgnored) {
  const std::string bytes = "\x1b[" + std::string(40, '1') + "A";
  KeyDecoder at_once, byte_by_byte;
  size_t keys = 0;
  for (const char byte : bytes) keys += byte_by_byte.Push({&byte, 1}).size();
  EXPECT_EQ(keys, bytes.size() - 1);
  EXPECT_EQ(at_once.Push(bytes).size(), keys);
}

TEST(KeyDecoder, RandomBytesGiveValidTextWithoutControls) {
  uint32_t state = 1;
  for (int run = 0; run < 200; ++run) {
    Typist typist(12, 6);
    std::string bytes;
    for (int i = 0; i < 100; ++i) {
      state = state * 1664525 + 1013904223;
      bytes += static_cast<char>(state >> 24);
    }
    typist.Type(bytes);
    EXPECT_TRUE(IsUtf8(typist.text()));
    for (const char c : typist.text()) EXPECT_TRUE(static_cast<unsigned char>(c) >= 0x20 || c == '\n' || c == '\t');
  }
}

}  // namespace
}  // namespace ringside::client
