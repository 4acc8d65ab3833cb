// Where the characters of a prompt and the text behind it stand on a screen of a given width. Lines are broken by us,
// never by the terminal, so that the cursor's place is known on every terminal. A pure function.
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

/// `prompt` stands before the first line of `text`, `continuation` before each further one. Tabs are shown as spaces,
/// other control characters as ^X. `cursor` is a byte offset in `text`.
LineLayout LayOut(std::string_view prompt, std::string_view continuation, std::string_view text, size_t cursor,
                  int columns);

}  // namespace ringside::client
