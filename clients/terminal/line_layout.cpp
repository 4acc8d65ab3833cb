#include "clients/terminal/line_layout.h"

#include <algorithm>

#include "clients/terminal/text_width.h"

namespace ringside::client {
namespace {

constexpr int kTabColumns = 4;

class Layouter {
 public:
  explicit Layouter(int columns) : columns_(std::max(columns, 2)) { layout_.rows.emplace_back(); }

  void Put(std::string_view shown, int width) {
    if (layout_.rows.back().width + width > columns_) NewRow();
    layout_.rows.back().text += shown;
    layout_.rows.back().width += width;
    // Wraps a full row at once: terminals disagree about the cursor after the last column.
    if (layout_.rows.back().width >= columns_) NewRow();
  }
  void PutText(std::string_view text) {
    while (!text.empty()) {
      const size_t bytes = FirstCluster(text);
      PutCluster(text.substr(0, bytes));
      text.remove_prefix(bytes);
    }
  }
  void PutCluster(std::string_view cluster) {
    const auto first = static_cast<unsigned char>(cluster[0]);
    if (first == '\t') {
      Put(std::string(kTabColumns, ' '), kTabColumns);
    } else if (first < 0x20 || first == 0x7F) {
      Put(std::string("^") + static_cast<char>(first ^ 0x40), 2);
    } else {
      Put(cluster, ClusterWidth(cluster));
    }
  }
  void NewRow() { layout_.rows.emplace_back(); }
  void MarkCursor() {
    layout_.cursor_row = layout_.rows.size() - 1;
    layout_.cursor_column = layout_.rows.back().width;
  }
  LineLayout Take() { return std::move(layout_); }

 private:
  const int columns_;
  LineLayout layout_;
};

}  // namespace

LineLayout LayOut(std::string_view prompt, std::string_view continuation, std::string_view text, size_t cursor,
                  int columns) {
  Layouter layouter(columns);
  layouter.PutText(prompt);
  size_t at = 0;
  while (true) {
    if (at >= cursor && at < cursor + 1) layouter.MarkCursor();
    if (at >= text.size()) break;
    const size_t bytes = FirstCluster(text.substr(at));
    if (text[at] == '\n') {
      layouter.NewRow();
      layouter.PutText(continuation);
    } else {
      layouter.PutCluster(text.substr(at, bytes));
    }
    at += bytes;
  }
  return layouter.Take();
}

}  // namespace ringside::client
