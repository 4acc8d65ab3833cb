// GitHub-style Markdown tables: rows between bars, the second one of dashes. Aligns the columns on the terminal. Pure
// functions. THREAD: any.
#pragma once

#include <string_view>
#include <vector>

#include "clients/terminal/markdown_spans.h"

namespace ringside::client {

struct TableText {
  Found found = Found::kText;  // kSpan: a complete table
  size_t size = 0;             // size in bytes, including the last newline
};

/// Decides whether a text that starts with a bar starts with a table; `ends`: no more text follows. A table ends before
/// a line without a bar, or at the size limit.
TableText FindTable(std::string_view text, bool ends);

/// Appends the pieces of a table found by FindTable.
void ShowTable(std::string_view table, std::vector<StyledText>& shown);

}  // namespace ringside::client
