// The edited text and its cursor. Moves and deletes by grapheme cluster, so that a family emoji or an accented letter
// is one step. Independent of keys and screen. THREAD: one.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace ringside::client {

class LineBuffer {
 public:
  const std::string& text() const { return text_; }
  /// Byte offset, always on a cluster boundary.
  size_t cursor() const { return cursor_; }

  /// Replaces the text and moves the cursor to its end.
  void Set(std::string text);
  /// `text` is UTF-8 and may contain newlines.
  void Insert(std::string_view text);

  void MoveLeft();
  void MoveRight();
  void MoveWordLeft();
  void MoveWordRight();
  /// Start and end of the cursor's line.
  void MoveHome();
  void MoveEnd();
  /// Moves to the same column of the line above or below. Returns false, and does nothing, if there is none.
  bool MoveUp();
  bool MoveDown();

  void DeleteLeft();
  void DeleteRight();
  // These save the deleted text for Yank.
  void KillToEnd();  // to the end of the line; at the end, deletes the newline
  void KillToHome();
  void KillWordLeft();  // back to the last blank, as terminals do
  void KillWordRight();
  void Yank() { Insert(killed_); }

 private:
  size_t LineBegin() const;
  size_t LineEnd() const;
  size_t WordLeft() const;
  size_t WordRight() const;
  size_t AtColumn(size_t begin, size_t end, int column) const;
  void Kill(size_t begin, size_t end);

  std::string text_, killed_;
  size_t cursor_ = 0;
};

}  // namespace ringside::client
