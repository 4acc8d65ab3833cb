#include "clients/chat/repl/answer_view.h"

#include <utility>

namespace ringside::client {

void AnswerView::Begin() {
  text_.clear();
  sanitiser_ = Sanitiser();
  reasoning_since_.reset();
  markdown_.reset();
  if (renders_markdown_) markdown_.emplace();
}

void AnswerView::AddReasoning(std::string_view text) {
  if (!reasoning_since_) {
    reasoning_since_ = Clock::now();
    if (!shows_reasoning_) screen_.ShowBanner("[thinking]");
    // Without colour only this separates it from the answer.
    if (shows_reasoning_ && !screen_.colour()) screen_.Notice("[thinking]");
  }
  if (shows_reasoning_) screen_.Answer({sanitiser_.Push(text), StyledText::kQuiet});
}

void AnswerView::EndReasoning() {
  if (!reasoning_since_) return;
  const auto ms = std::chrono::duration_cast<std::chrono::milliseconds>(Clock::now() - *reasoning_since_).count();
  reasoning_since_.reset();
  if (shows_reasoning_) {
    screen_.Answer({sanitiser_.Finish(), StyledText::kQuiet});
    sanitiser_ = Sanitiser();
  }
  screen_.EndAnswer();
  screen_.Notice("[thought for " + std::to_string(ms / 1000) + "." + std::to_string(ms % 1000 / 100) + " s]");
}

void AnswerView::AddText(std::string_view text) {
  EndReasoning();
  text_ += text;
  Show(sanitiser_.Push(text));
}

void AnswerView::Show(const std::string& safe) {
  if (!markdown_) return screen_.Answer({safe});
  for (const StyledText& piece : markdown_->Push(safe)) screen_.Answer(piece);
}

void AnswerView::End() {
  EndReasoning();
  Show(sanitiser_.Finish());
  if (markdown_) {
    for (const StyledText& piece : markdown_->Finish()) screen_.Answer(piece);
  }
  screen_.EndAnswer();
}

}  // namespace ringside::client
