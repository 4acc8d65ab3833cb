// The text being edited and the cursor in it. Moves and deletes by grapheme cluster, so that a family emoji or a letter
// with its accents is one step. Knows no keys and no screen. One thread.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace ringside::client {

class LineBuffer {
 public:
  const std::string& text() const { return text_; }
  /// Byte offset, always at a cluster's border.
  size_t cursor() const { return cursor_; }

  /// Replaces everything; the cursor goes to the end.
  void Set(std::string text);
  /// `text` is UTF-8 and may hold newlines.
  void Insert(std::string_view text);

  void MoveLeft();
  void MoveRight();
  void MoveWordLeft();
  void MoveWordRight();
  /// Begin and end of the line that the cursor is in.
  void MoveHome();
  void MoveEnd();
  /// To the same column of the line above or below. False (and nothing done) if there is none.
  bool MoveUp();
  bool MoveDown();

  void DeleteLeft();
  void DeleteRight();
  // These remember what they delete for Yank.
  void KillToEnd();  // of the line; at its end, the newline
  void KillToHome();
  void KillWordLeft();  // to the last blank, as terminals do
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
