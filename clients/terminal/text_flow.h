// Breaks text that arrives in pieces at the right border of the screen, at words where it can: each piece is shown at
// once, and a word that turns out to be too long for its row is taken back and begun on the next one. A character two
// columns wide is a word of its own; a word longer than a row is broken where it must be. One object per text, one
// thread.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace ringside::client {

class TextFlow {
 public:
  /// `can_erase`: the terminal understands escape sequences. Without, words are broken where the row ends.
  explicit TextFlow(bool can_erase) : can_erase_(can_erase) {}

  /// Bytes that show `text` (UTF-8 without control characters but newlines and tabs) behind what was shown before, in
  /// `style` (an escape sequence, or empty). Rows begun in the middle of a line are indented by `hang` columns.
  std::string Put(std::string_view text, std::string_view style, int hang, int columns);

  /// Where the cursor stands; as many as there are columns = behind a full row.
  int column() const { return column_; }
  /// The cursor was put at the left border.
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
  int columns_ = 80, hang_ = 0;  // of the piece that is being shown
  int column_ = 0;
  int word_column_ = 0;    // where the word that is being shown begins
  std::vector<Run> word_;  // what of it is on its last row
};

/// A whole text at once, for lines of our own; `with_tables`: a row of a table is indented to its last column.
std::string WrapText(std::string_view text, int columns, bool with_tables);

}  // namespace ringside::client
