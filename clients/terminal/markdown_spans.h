// What is marked within a line of Markdown: code, bold, italic, struck and links. Pure functions, any thread.
#pragma once

#include <string_view>
#include <vector>

#include "clients/terminal/markdown.h"

namespace ringside::client {

/// What is marked at the beginning of a text: bytes from `begin` on, `size` of them, `taken` with the marks.
struct Span {
  size_t begin = 0, size = 0, taken = 0;
  unsigned style = 0;
  std::string_view address = {};  // of a link
};
/// kOpen: the text that is there does not tell yet.
enum class Found { kSpan, kText, kOpen };

/// Looks for a span at the beginning of a text that is not empty, `before` being the byte in front of it. `ends`: no
/// more of the text will come.
Found FindSpan(std::string_view text, bool ends, char before, Span& span);

/// Adds the pieces of a text that ends, in which spans may stand.
void ShowSpans(std::string_view text, unsigned style, int hang, std::vector<StyledText>& shown);

/// Bytes at `at` that are alike.
size_t RunLength(std::string_view text, size_t at);
bool IsPunctuation(char c);

}  // namespace ringside::client
