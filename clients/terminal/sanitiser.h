// Makes a model's text safe for a terminal. The model may write anything, including text injected through its input:
// only printable characters, newlines and tabs may reach the terminal. Holds back incomplete characters. One object per
// answer. THREAD: one.
#pragma once

#include <string>
#include <string_view>

namespace ringside::client {

class Sanitiser {
 public:
  /// Returns the printable part of `text` (UTF-8, split anywhere). Drops C0 except newline and tab, DEL, C1, and
  /// bidirectional embeddings, overrides and isolates. Invalid bytes become U+FFFD.
  std::string Push(std::string_view text);
  /// Returns the bytes held back at the end of the text.
  std::string Finish();

 private:
  std::string Take(std::string_view text, bool last);
  std::string held_;
};

/// Sanitises a complete text.
std::string Sanitise(std::string_view text);

}  // namespace ringside::client
