#include "clients/terminal/line_editor.h"

#include <algorithm>
#include <utility>

#include "clients/terminal/text_width.h"

namespace ringside::client {

using Code = Key::Code;

LineEditor::LineEditor(const History& history, Completer completer)
    : history_(history), completer_(std::move(completer)) {}

void LineEditor::Begin(std::string prompt, std::string continuation, std::string style, std::string plain) {
  prompt_ = std::move(prompt);
  continuation_ = std::move(continuation);
  style_ = std::move(style);
  plain_ = std::move(plain);
  buffer_.Set("");
  searching_ = false;
  Edited();
  Forget();
}

void LineEditor::Edited() { at_.reset(); }

LineEditor::Result LineEditor::Handle(const Key& key) {
  if (searching_) {
    bool used = false;
    const Result result = HandleSearch(key, used);
    if (used) return result;
  }
  switch (key.code) {
    case Code::kText:
    case Code::kPaste:
      buffer_.Insert(key.text);
      Edited();
      break;
    case Code::kNewline:
      buffer_.Insert("\n");
      Edited();
      break;
    case Code::kEnter:
      return Result::kAccepted;
    case Code::kTab:
      return Complete();
    case Code::kBackspace:
      buffer_.DeleteLeft();
      Edited();
      break;
    case Code::kDelete:
      buffer_.DeleteRight();
      Edited();
      break;
    case Code::kLeft:
      buffer_.MoveLeft();
      break;
    case Code::kRight:
      buffer_.MoveRight();
      break;
    case Code::kUp:
      if (at_ || !buffer_.MoveUp()) WalkHistory(-1);
      break;
    case Code::kDown:
      if (at_ || !buffer_.MoveDown()) WalkHistory(+1);
      break;
    case Code::kHome:
      buffer_.MoveHome();
      break;
    case Code::kEnd:
      buffer_.MoveEnd();
      break;
    case Code::kWordLeft:
      buffer_.MoveWordLeft();
      break;
    case Code::kWordRight:
      buffer_.MoveWordRight();
      break;
    case Code::kDeleteWordRight:
      buffer_.KillWordRight();
      Edited();
      break;
    case Code::kControl:
      return HandleControl(key.text[0]);
  }
  return Result::kEditing;
}

LineEditor::Result LineEditor::HandleControl(char letter) {
  switch (letter) {
    case 'A':
      buffer_.MoveHome();
      return Result::kEditing;
    case 'B':
      buffer_.MoveLeft();
      return Result::kEditing;
    case 'C':
      return Result::kInterrupted;
    case 'D':
      if (buffer_.text().empty()) return Result::kEndOfInput;
      buffer_.DeleteRight();
      break;
    case 'E':
      buffer_.MoveEnd();
      return Result::kEditing;
    case 'F':
      buffer_.MoveRight();
      return Result::kEditing;
    case 'K':
      buffer_.KillToEnd();
      break;
    case 'L':
      return Result::kClearScreen;
    case 'N':
      return Handle({Code::kDown});
    case 'P':
      return Handle({Code::kUp});
    case 'R':
      searching_ = true;
      sought_.clear();
      own_text_ = buffer_.text();
      return Result::kEditing;
    case 'U':
      buffer_.KillToHome();
      break;
    case 'W':
      buffer_.KillWordLeft();
      break;
    case 'Y':
      buffer_.Yank();
      break;
    default:
      return Result::kEditing;
  }
  Edited();
  return Result::kEditing;
}

void LineEditor::WalkHistory(int step) {
  const auto& entries = history_.entries();
  if (!at_) {
    if (step > 0) return;
    own_text_ = buffer_.text();
  }
  size_t at = at_.value_or(entries.size());
  while (true) {
    if (step < 0 && at == 0) return;
    at = step < 0 ? at - 1 : at + 1;
    if (at >= entries.size()) {
      at_.reset();
      buffer_.Set(own_text_);
      return;
    }
    if (entries[at].starts_with(own_text_) && entries[at] != buffer_.text()) break;
  }
  at_ = at;
  buffer_.Set(entries[at]);
}

void LineEditor::Search(size_t below) {
  const auto& entries = history_.entries();
  for (size_t at = std::min(below, entries.size()); at-- > 0;) {
    if (entries[at].find(sought_) == std::string::npos) continue;
    at_ = at;
    buffer_.Set(entries[at]);
    return;
  }
}

LineEditor::Result LineEditor::HandleSearch(const Key& key, bool& used) {
  used = true;
  const size_t newest = history_.entries().size();
  if (key.code == Code::kText) {
    sought_ += key.text;
    Search(newest);
  } else if (key.code == Code::kBackspace) {
    sought_.erase(sought_.size() - LastCluster(sought_));
    sought_.empty() ? buffer_.Set(own_text_) : Search(newest);
  } else if (key.code == Code::kControl && key.text == "R") {
    if (!sought_.empty()) Search(at_.value_or(newest));
  } else if (key.code == Code::kControl && (key.text == "C" || key.text == "G")) {
    searching_ = false;
    at_.reset();
    buffer_.Set(own_text_);
  } else {
    searching_ = false;  // any other key accepts the match and is then handled normally
    own_text_.clear();
    used = false;
  }
  return Result::kEditing;
}

LineEditor::Result LineEditor::Complete() {
  const std::string before = buffer_.text().substr(0, buffer_.cursor());
  candidates_ = completer_ ? completer_(before) : std::vector<std::string>();
  if (candidates_.empty()) return Result::kEditing;
  std::string common = candidates_.front();
  for (const std::string& candidate : candidates_) {
    const auto [end, ignored] = std::mismatch(common.begin(), common.end(), candidate.begin(), candidate.end());
    common.erase(end, common.end());
  }
  if (common.size() > before.size() && common.starts_with(before)) {
    buffer_.Insert(common.substr(before.size()));
    Edited();
    return Result::kEditing;
  }
  return candidates_.size() > 1 ? Result::kShowCandidates : Result::kEditing;
}

std::string LineEditor::EraseDrawn(int columns) const {
  if (drawn_widths_.empty()) return "";
  // A narrower terminal has re-wrapped our rows.
  int up = 0;
  for (size_t row = 0; row < drawn_cursor_row_; ++row) {
    up += std::max(1, (drawn_widths_[row] + columns - 1) / columns);
  }
  up += drawn_cursor_column_ / columns;
  return (up > 0 ? "\x1b[" + std::to_string(up) + "A" : std::string()) + "\r\x1b[J";
}

std::string LineEditor::Draw(ScreenSize size) {
  const std::string prompt = searching_ ? "(search) " + sought_ + ": " : prompt_;
  LineLayout layout = LayOut(prompt, continuation_, buffer_.text(), buffer_.cursor(), size.columns);
  // If the text is taller than the screen, show only the part around the cursor.
  const auto height = static_cast<size_t>(std::max(size.rows, 2));
  if (layout.rows.size() > height) {
    const size_t top =
        std::min(layout.cursor_row - std::min(layout.cursor_row, height / 2), layout.rows.size() - height);
    layout.rows.erase(layout.rows.begin() + static_cast<std::ptrdiff_t>(top + height), layout.rows.end());
    layout.rows.erase(layout.rows.begin(), layout.rows.begin() + static_cast<std::ptrdiff_t>(top));
    layout.cursor_row -= top;
  }
  std::string bytes = EraseDrawn(size.columns);
  if (bytes.empty()) bytes = "\r";
  drawn_widths_.clear();
  for (size_t row = 0; row < layout.rows.size(); ++row) {
    if (row > 0) bytes += "\r\n";
    std::string_view text = layout.rows[row].text;
    if (row == 0 && !style_.empty() && text.starts_with(prompt)) {
      bytes += style_ + prompt + plain_;
      text.remove_prefix(prompt.size());
    }
    bytes += text;
    drawn_widths_.push_back(layout.rows[row].width);
  }
  drawn_cursor_row_ = layout.cursor_row;
  drawn_cursor_column_ = layout.cursor_column;
  const size_t up = layout.rows.size() - 1 - layout.cursor_row;
  if (up > 0) bytes += "\x1b[" + std::to_string(up) + "A";
  bytes += "\r";
  if (layout.cursor_column > 0) bytes += "\x1b[" + std::to_string(layout.cursor_column) + "C";
  return bytes;
}

std::string LineEditor::Hide(ScreenSize size) {
  std::string bytes = EraseDrawn(size.columns);
  Forget();
  return bytes;
}

std::string LineEditor::Leave(ScreenSize size) {
  searching_ = false;
  const std::string text = buffer_.text();
  buffer_.Set(text);  // moves the cursor to the end
  std::string bytes = Draw(size);
  Forget();
  return bytes + "\r\n";
}

}  // namespace ringside::client
