// Incremental Markdown renderer for streaming answers: headings, bold, italic, strikethrough, code, lists, quotes,
// links and tables. A mark that is not closed on its line is shown as written. Output is never revised: the text after
// an opening mark is held until the mark closes, and a table until it is complete. (A whole-document parser could not
// show a word before its paragraph ends.) One object per answer. THREAD: one.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace ringside::client {

struct StyledText {
  enum Style : unsigned {
    kPlain = 0,
    kBold = 1,
    kItalic = 2,
    kStruck = 4,
    kCode = 8,
    kHeading = 16,
    kLink = 32,
    kQuiet = 64,  // marks: a fence, a rule, a link's address
  };
  std::string text;
  unsigned style = kPlain;  // bit set of Style
  int hang = 0;             // hanging indent of wrapped lines, in columns
};

class Markdown {
 public:
  /// Returns the pieces that `text` (sanitised UTF-8, split anywhere) completes.
  std::vector<StyledText> Push(std::string_view text);
  /// Returns the held text at the end of the answer.
  std::vector<StyledText> Finish();

 private:
  enum class Step { kTaken, kWait };

  void Read(std::vector<StyledText>& shown, bool last);
  Step ReadLineBegin(std::vector<StyledText>& shown, bool last);
  Step ReadFence(std::vector<StyledText>& shown);
  Step ReadTable(std::vector<StyledText>& shown, bool last);
  Step ReadCode(std::vector<StyledText>& shown);
  Step ReadText(std::vector<StyledText>& shown, bool last);
  void Show(std::vector<StyledText>& shown, size_t bytes, unsigned style);

  std::string held_;
  bool line_begins_ = true;
  std::string fence_;  // fence of the open code block; "" outside
  unsigned line_style_ = StyledText::kPlain;
  int hang_ = 0;
  char before_ = '\n';  // last byte shown
};

}  // namespace ringside::client
