// How the chat looks: answers, notices and errors on the terminal, broken at words, in colour if wanted, and a banner
// that stands below an answer while the connection is lost and goes again without a trace. Only text that passed a
// Sanitiser is given to it by others as an answer; notices are sanitised here. Main thread only.
#pragma once

#include <string>
#include <string_view>

#include "clients/terminal/markdown.h"
#include "clients/terminal/terminal.h"
#include "clients/terminal/text_flow.h"

namespace ringside::client {

enum class ColourMode { kAuto, kAlways, kNever };

/// kAuto: on a terminal that understands it, unless NO_COLOR is set to anything but "".
bool WantsColour(ColourMode mode, bool is_terminal);

class Screen {
 public:
  Screen(Terminal& terminal, bool colour, bool escapes);

  /// A piece of an answer, already sanitised.
  void Answer(const StyledText& piece);
  /// Ends the answer's last line.
  void EndAnswer();
  /// Lines of ours: plain, where a table's rows are broken in its last column; dim; red.
  void Line(std::string_view text);
  void Notice(std::string_view text);
  void Error(std::string_view text);
  /// A line that is to be copied: never broken by us.
  void Verbatim(std::string_view text);
  /// Shows the banner or changes its text.
  void ShowBanner(std::string_view text);
  void ClearBanner();

  /// Escape sequences around the prompt, or nothing.
  std::string prompt_style() const { return colour_ ? "\x1b[1;36m" : ""; }
  std::string plain_style() const { return colour_ ? "\x1b[0m" : ""; }
  bool colour() const { return colour_; }

 private:
  void Styled(std::string_view style, const std::string& wrapped);
  std::string Wrapped(std::string_view text, bool with_tables) const;

  Terminal& terminal_;
  const bool colour_, escapes_;
  TextFlow flow_;  // the answer
  bool banner_ = false;
  bool banner_below_ = false;  // it stands on the line below the answer's last
};

}  // namespace ringside::client
