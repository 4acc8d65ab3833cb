// The chat's display: answers, notices and errors, word-wrapped, in colour if wanted, and a banner below the answer
// while the connection is lost, which is removed without a trace. Answers must be sanitised by the caller; notices are
// sanitised here. THREAD: main.
#pragma once

#include <string>
#include <string_view>

#include "clients/terminal/markdown.h"
#include "clients/terminal/terminal.h"
#include "clients/terminal/text_flow.h"

namespace ringside::client {

enum class ColourMode { kAuto, kAlways, kNever };

/// kAuto: on a terminal that supports it, unless NO_COLOR is set and not empty.
bool WantsColour(ColourMode mode, bool is_terminal);

class Screen {
 public:
  Screen(Terminal& terminal, bool colour, bool escapes);

  /// Shows a piece of an answer. REQUIRES: sanitised.
  void Answer(const StyledText& piece);
  /// Ends the answer's last line.
  void EndAnswer();
  /// The program's own lines: plain (table rows are wrapped in the last column), dim, red.
  void Line(std::string_view text);
  void Notice(std::string_view text);
  /// A message of a person, after its prompt or label.
  void Said(std::string_view label, std::string_view text);
  void Error(std::string_view text);
  /// A line meant to be copied: never wrapped.
  void Verbatim(std::string_view text);
  /// Shows the banner or changes its text.
  void ShowBanner(std::string_view text);
  void ClearBanner();

  /// Escape sequences around the prompt, or empty.
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
  bool banner_below_ = false;  // whether the banner is on the line below the answer
};

}  // namespace ringside::client
