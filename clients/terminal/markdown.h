// Reads a model's Markdown while it is written and says how its pieces look: headings, bold, italic, struck, code,
// lists, quotes, links and tables. What is not closed within its line stays as it was written: nothing is ever taken
// back, so only the text from an opening mark on is held until its end is there, and a table until it is whole. (A
// parser of whole documents could not show a word before its paragraph ends.) One object per answer, one thread.
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
  unsigned style = kPlain;  // of Style, together
  int hang = 0;             // columns by which a broken line goes on indented
};

class Markdown {
 public:
  /// What `text` (sanitised UTF-8, in pieces of any size) lets be shown.
  std::vector<StyledText> Push(std::string_view text);
  /// What was held at the end of the text.
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
  std::string fence_;  // the marks that opened a block of code; "" = outside
  unsigned line_style_ = StyledText::kPlain;
  int hang_ = 0;
  char before_ = '\n';  // the last byte shown
};

}  // namespace ringside::client
