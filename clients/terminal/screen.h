// How the chat looks: answers, notices and errors on the terminal, in colour if wanted, and a banner that stands below
// an answer while the connection is lost and goes again without a trace. Only text that passed a Sanitiser is given to
// it by others as an answer; notices are sanitised here. Main thread only.
#pragma once

#include <string>
#include <string_view>

#include "clients/terminal/terminal.h"

namespace ringside::client {

enum class ColourMode { kAuto, kAlways, kNever };

/// kAuto: on a terminal that understands it, unless NO_COLOR is set to anything but "".
bool WantsColour(ColourMode mode, bool is_terminal);

class Screen {
 public:
  Screen(Terminal& terminal, bool colour, bool escapes);

  /// A piece of an answer, already sanitised.
  void Answer(std::string_view text);
  /// Ends the answer's last line.
  void EndAnswer();
  /// A line of ours: plain, dim or red.
  void Line(std::string_view text);
  void Notice(std::string_view text);
  void Error(std::string_view text);
  /// Shows the banner or changes its text.
  void ShowBanner(std::string_view text);
  void ClearBanner();

  /// Escape sequences around the prompt, or nothing.
  std::string prompt_style() const { return colour_ ? "\x1b[1;36m" : ""; }
  std::string plain_style() const { return colour_ ? "\x1b[0m" : ""; }
  Terminal& terminal() { return terminal_; }

 private:
  void Styled(std::string_view style, std::string_view text);

  Terminal& terminal_;
  const bool colour_, escapes_;
  int column_ = 0;  // where the answer's text ends, if nothing has been wrapped since
  bool banner_ = false;
  bool banner_below_ = false;  // it stands on the line below the answer's last
};

}  // namespace ringside::client
