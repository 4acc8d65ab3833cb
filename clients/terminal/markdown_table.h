// Tables of Markdown, as GitHub's dialect has them: rows between bars, the second one of dashes. On a terminal their
// columns stand under one another. Pure functions, any thread.
#pragma once

#include <string_view>
#include <vector>

#include "clients/terminal/markdown_spans.h"

namespace ringside::client {

struct TableText {
  Found found = Found::kText;  // kSpan: a whole table
  size_t size = 0;             // its bytes, the newline of its last row among them
};

/// Whether a text that begins with a bar begins with a table; `ends`: no more of the text will come. A table ends where
/// a line begins without a bar, or is so long that nobody should wait for more of it.
TableText FindTable(std::string_view text, bool ends);

/// Adds the pieces of a table that FindTable has found.
void ShowTable(std::string_view table, std::vector<StyledText>& shown);

}  // namespace ringside::client
