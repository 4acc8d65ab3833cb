#include "clients/terminal/text_flow.h"

#include <algorithm>

#include "clients/terminal/text_width.h"

namespace ringside::client {
namespace {

constexpr int kTabStop = 8;
constexpr std::string_view kPlain = "\x1b[0m";

/// Column where a table row's last cell starts: after its last run of two or more blanks. 0 for other text.
int TableHang(std::string_view line, int columns) {
  size_t at = line.find_first_not_of(' ');
  size_t begin = 0;
  while (at != std::string_view::npos) {
    const size_t gap = line.find("  ", at);
    if (gap == std::string_view::npos) break;
    at = line.find_first_not_of(' ', gap);
    if (at != std::string_view::npos) begin = at;
  }
  const int hang = TextWidth(line.substr(0, begin));
  return hang <= columns / 2 ? hang : 0;
}

}  // namespace

void TextFlow::Reset() {
  column_ = 0;
  EndWord();
}

void TextFlow::EndWord() {
  word_.clear();
  word_column_ = column_;
}

std::string TextFlow::Put(std::string_view text, std::string_view style, int hang, int columns) {
  columns_ = std::max(columns, 2);
  hang_ = std::clamp(hang, 0, columns_ / 2);
  std::string bytes(style);
  while (!text.empty()) {
    const size_t size = FirstCluster(text);
    const std::string_view cluster = text.substr(0, size);
    text.remove_prefix(size);
    if (cluster == "\n") {
      bytes += cluster;
      Reset();
    } else if (cluster == " ") {
      PutBlank(1, bytes);
    } else if (cluster == "\t") {
      PutBlank(kTabStop - column_ % kTabStop, bytes);
    } else {
      PutCluster(cluster, style, bytes);
    }
  }
  if (!style.empty()) bytes += kPlain;
  return bytes;
}

void TextFlow::PutBlank(int width, std::string& bytes) {
  // Blanks that do not fit are absorbed by the line break.
  const int shown = std::min(width, columns_ - column_);
  bytes.append(static_cast<size_t>(std::max(shown, 0)), ' ');
  column_ = std::min(column_ + width, columns_);
  EndWord();
}

void TextFlow::PutCluster(std::string_view cluster, std::string_view style, std::string& bytes) {
  const int width = ClusterWidth(cluster);
  if (width == 2) EndWord();
  if (column_ + width > columns_) BreakRow(style, bytes);
  if (column_ + width > columns_) {  // the word alone fills a row
    EndWord();
    BreakRow(style, bytes);
  }
  if (word_.empty() || word_.back().style != style) word_.push_back({std::string(style), {}});
  word_.back().text += cluster;
  bytes += cluster;
  column_ += width;
  if (width == 2) EndWord();
}

void TextFlow::BreakRow(std::string_view style, std::string& bytes) {
  const bool takes_word = can_erase_ && !word_.empty() && word_column_ > hang_;
  if (!style.empty()) bytes += kPlain;
  // Moves to the word's first column by absolute position: after a full row the cursor position depends on the
  // terminal.
  if (takes_word) bytes += "\x1b[" + std::to_string(word_column_ + 1) + "G\x1b[K";
  bytes += '\n';
  bytes.append(static_cast<size_t>(hang_), ' ');
  column_ = hang_;
  if (takes_word) {
    word_column_ = column_;
    for (const Run& run : word_) {
      bytes += run.style + run.text + (run.style.empty() ? "" : std::string(kPlain));
      column_ += TextWidth(run.text);
    }
  } else {
    EndWord();
  }
  bytes += style;
}

std::string WrapText(std::string_view text, int columns, bool with_tables) {
  std::string wrapped;
  while (true) {
    const size_t newline = text.find('\n');
    const std::string_view line = text.substr(0, newline);
    const int hang = with_tables ? TableHang(line, columns) : 0;
    // Word by word: text already shown is never erased.
    int column = 0;
    for (size_t at = 0; at < line.size();) {
      const size_t word = std::min(line.find_first_not_of(' ', at), line.size());
      const size_t end = std::min(line.find(' ', word), line.size());
      const std::string_view blanks = line.substr(at, word - at), letters = line.substr(word, end - word);
      const int width = TextWidth(letters);
      const int before = column + static_cast<int>(blanks.size());
      if (column > hang && before + width > columns && width > 0) {
        wrapped += '\n' + std::string(static_cast<size_t>(hang), ' ');
        column = hang;
      } else if (width > 0) {
        wrapped += blanks;
        column = before;
      }
      wrapped += letters;
      column += width;
      at = end;
    }
    if (newline == std::string_view::npos) return wrapped;
    wrapped += '\n';
    text.remove_prefix(newline + 1);
  }
}

}  // namespace ringside::client
