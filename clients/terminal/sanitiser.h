// Makes a model's text safe for a terminal. A model may write anything, also what its input told it to write: nothing
// but printable characters, newlines and tabs may reach the terminal. Holds back a character whose bytes are not all
// there yet. One object per answer, one thread.
#pragma once

#include <string>
#include <string_view>

namespace ringside::client {

class Sanitiser {
 public:
  /// The printable part of `text` (UTF-8, in pieces of any size). Dropped: C0 except newline and tab, DEL, C1, the
  /// bidirectional embeddings, overrides and isolates. Bytes that are no UTF-8 become U+FFFD.
  std::string Push(std::string_view text);
  /// What was held back at the end of the text.
  std::string Finish();

 private:
  std::string Take(std::string_view text, bool last);
  std::string held_;
};

/// A whole text at once.
std::string Sanitise(std::string_view text);

}  // namespace ringside::client
