// Terminal input bytes to keys: UTF-8 characters, control keys, escape sequences in the spellings that terminals use,
// bracketed paste. Bytes may come in any pieces. One thread.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace ringside::client {

struct Key {
  enum class Code {
    kText,   // text: one character
    kPaste,  // text: all that was pasted, newlines as \n
    kEnter,
    kNewline,  // Alt-Enter: a line break inside the input
    kTab,
    kBackspace,
    kDelete,
    kLeft,
    kRight,
    kUp,
    kDown,
    kHome,
    kEnd,
    kWordLeft,
    kWordRight,
    kDeleteWordRight,
    kControl,  // text: the letter, 'A' to 'Z'
  };
  Code code;
  std::string text = {};
};

class KeyDecoder {
 public:
  /// The keys that `bytes` complete.
  std::vector<Key> Push(std::string_view bytes);
  /// True if an escape key or half a character waits for more; after some 50 ms without, call Flush.
  bool waiting() const { return !pending_.empty() && !in_paste_; }
  /// Gives up what waits.
  void Flush() {
    if (!in_paste_) pending_.clear();
  }

 private:
  bool DecodeOne(std::vector<Key>& keys);
  bool DecodeEscape(std::vector<Key>& keys);
  bool TakePaste(std::vector<Key>& keys);

  std::string pending_;
  bool in_paste_ = false;
};

}  // namespace ringside::client
