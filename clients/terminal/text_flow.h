// Wraps streaming text at the screen's right edge, at words where possible: each piece is shown at once, and a word
// that turns out too long for its row is erased and moved to the next one. A double-width character counts as a word; a
// word longer than a row is split. One object per text. THREAD: one.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace ringside::client {

class TextFlow {
 public:
  /// `can_erase`: the terminal supports escape sequences. Otherwise words are split at the end of a row.
  explicit TextFlow(bool can_erase) : can_erase_(can_erase) {}

  /// Returns the bytes that append `text` (UTF-8 without control characters except newline and tab) in `style` (an
  /// escape sequence, or empty). Wrapped rows are indented by `hang` columns.
  std::string Put(std::string_view text, std::string_view style, int hang, int columns);

  /// Cursor column; equal to the width after a full row.
  int column() const { return column_; }
  /// The cursor was moved to the left edge.
  void Reset();

 private:
  struct Run {
    std::string style, text;
  };
  void PutCluster(std::string_view cluster, std::string_view style, std::string& bytes);
  void PutBlank(int width, std::string& bytes);
  void BreakRow(std::string_view style, std::string& bytes);
  void EndWord();

  const bool can_erase_;
  int columns_ = 80, hang_ = 0;  // for the current piece
  int column_ = 0;
  int word_column_ = 0;    // start column of the current word
  std::vector<Run> word_;  // its part on the last row
};

/// Wraps a complete text of our own; `with_tables`: table rows wrap within their last column.
std::string WrapText(std::string_view text, int columns, bool with_tables);

}  // namespace ringside::client
