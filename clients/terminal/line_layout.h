// Lays out a prompt and its text on a screen of a given width. We wrap lines ourselves, so that the cursor position is
// known on every terminal. Pure function.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace ringside::client {

struct LineLayout {
  struct Row {
    std::string text;
    int width = 0;  // columns
  };
  std::vector<Row> rows;  // at least one
  size_t cursor_row = 0;
  int cursor_column = 0;
};

/// `prompt` precedes the first line of `text`, `continuation` each further line. Tabs are shown as spaces, other
/// control characters as ^X. `cursor` is a byte offset in `text`.
LineLayout LayOut(std::string_view prompt, std::string_view continuation, std::string_view text, size_t cursor,
                  int columns);

}  // namespace ringside::client
