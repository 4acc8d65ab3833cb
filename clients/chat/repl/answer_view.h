// One answer on the screen while it streams: its reasoning dimmed, then its text. Text from the server is sanitised
// here. Owned by the Repl; main thread only.
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
  /// `screen` outlives the view. `markdown`: the text is rendered as Markdown.
  AnswerView(Screen& screen, bool markdown) : screen_(screen), renders_markdown_(markdown) {}

  /// Whether reasoning is shown, or only that there is some.
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
  std::optional<Clock::time_point> reasoning_since_;  // while it streams
};

}  // namespace ringside::client
