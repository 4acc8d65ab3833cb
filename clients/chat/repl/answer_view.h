// A streaming answer on the screen: dimmed reasoning, then the text. Sanitises the server's text. Owned by the Repl.
// THREAD: main.
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <string_view>

#include "clients/terminal/markdown.h"
#include "clients/terminal/sanitiser.h"
#include "clients/terminal/screen.h"

namespace ringside::client {

class AnswerView {
 public:
  /// REQUIRES: `screen` outlives the view. `markdown`: render the text as Markdown.
  AnswerView(Screen& screen, bool markdown) : screen_(screen), renders_markdown_(markdown) {}

  /// If false, the view only indicates that there is reasoning.
  void set_shows_reasoning(bool shows) { shows_reasoning_ = shows; }
  bool shows_reasoning() const { return shows_reasoning_; }

  void Begin();
  /// REQUIRES: no AddText since Begin.
  void AddReasoning(std::string_view text);
  void AddText(std::string_view text);
  void End();
  /// The raw text so far, without reasoning.
  const std::string& text() const { return text_; }

 private:
  using Clock = std::chrono::steady_clock;

  void EndReasoning();
  void Show(const std::string& safe);

  Screen& screen_;
  const bool renders_markdown_;
  bool shows_reasoning_ = true;
  Sanitiser sanitiser_;
  std::optional<Markdown> markdown_;
  std::string text_;
  std::optional<Clock::time_point> reasoning_since_;  // set while it streams
};

}  // namespace ringside::client
