// Long strings of a JSON text, taken out before the library's parser reads it byte by byte: images in base64. Pure.
// THREAD: any.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace ringside {

/// A text whose long strings are empty.
class ShortenedJson {
 public:
  /// Takes out each string of 16 KiB and more that consists of printable ASCII without escapes. `text` is valid JSON,
  /// or is cut at the first fault by the parser; it must outlive this object.
  explicit ShortenedJson(std::string_view text);

  std::string_view text() const { return text_; }
  /// The value of the parser's next string or name, in the order of the text, which it read as `value`.
  void Restore(std::string* value);
  /// The place in the original text of a place in the shortened one.
  size_t OriginalPlace(size_t place) const;

 private:
  struct Taken {
    int64_t number = 0;  // of the string, from 0
    size_t place = 0;    // in the shortened text
    std::string_view value;
  };
  std::string shortened_;
  std::string_view text_;
  std::vector<Taken> taken_;
  size_t next_ = 0;     // in taken_
  int64_t number_ = 0;  // of the parser's next string
};

}  // namespace ringside
