// Decodes terminal input bytes into keys: UTF-8 characters, control keys, the common spellings of escape sequences,
// bracketed paste. Input may be split anywhere. THREAD: one.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace ringside::client {

struct Key {
  enum class Code {
    kText,   // text: one character
    kPaste,  // text: the pasted text, newlines as \n
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
  /// Returns the keys completed by `bytes`.
  std::vector<Key> Push(std::string_view bytes);
  /// True while an escape key or an incomplete character is pending; call Flush after about 50 ms without input.
  bool waiting() const { return !pending_.empty() && !in_paste_; }
  /// Discards the pending bytes.
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
