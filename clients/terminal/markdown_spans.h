// Inline Markdown: code, bold, italic, strikethrough and links. Pure functions. THREAD: any.
#pragma once

#include <string_view>
#include <vector>

#include "clients/terminal/markdown.h"

namespace ringside::client {

/// A span at the start of a text: `size` bytes from `begin`; `taken` includes the marks.
struct Span {
  size_t begin = 0, size = 0, taken = 0;
  unsigned style = 0;
  std::string_view address = {};  // for links
};
/// kOpen: undecided, needs more text.
enum class Found { kSpan, kText, kOpen };

/// Looks for a span at the start of a text. REQUIRES: the text is not empty. `before` is the preceding byte; `ends`: no
/// more text follows.
Found FindSpan(std::string_view text, bool ends, char before, Span& span);

/// Appends the pieces of a complete text that may contain spans.
void ShowSpans(std::string_view text, unsigned style, int hang, std::vector<StyledText>& shown);

/// Length of the run of equal bytes at `at`.
size_t RunLength(std::string_view text, size_t at);
bool IsPunctuation(char c);

}  // namespace ringside::client
