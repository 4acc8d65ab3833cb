// Validates the framing of a chunked body byte by byte before the parser sees it. Like RequestHead, it rejects anything
// that two parsers could interpret differently. Chunk extensions are ignored, as RFC 9112 section 7.1.1 requires, and
// bounded.
// THREAD: one.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace ringside {

class ChunkLines {
 public:
  static constexpr size_t kMaxSizeDigits = 16;
  static constexpr size_t kMaxExtensionBytes = 16 << 10;  // of all chunks of a body

  enum class Verdict {
    kMore,   // valid so far
    kWhole,  // valid and complete after bytes() of the body
    kBad,    // invalid, see trouble()
  };
  /// Validates `bytes`, the next part of the body, which may include data after it.
  Verdict Read(std::string_view bytes);
  uint64_t bytes() const { return read_; }
  /// Error message.
  const char* trouble() const { return trouble_; }

 private:
  enum class Part {
    kSize,
    kExtension,
    kQuoted,
    kEscape,
    kSizeEnd,
    kData,
    kDataReturn,
    kDataEnd,
    kLastReturn,
    kLastEnd,
    kDone
  };

  bool ReadByte(char c);
  bool ReadSize(char c);
  bool ReadExtension(char c);
  bool Expect(char c, char wanted, Part next);
  bool Bad(const char* trouble);

  Part part_ = Part::kSize;
  uint64_t read_ = 0, left_ = 0;  // left_: of the current chunk
  size_t digits_ = 0, extension_bytes_ = 0;
  bool named_ = false;  // inside an extension, after its name has started
  bool blank_ = false;  // white space after the size: only an extension may follow
  const char* trouble_ = "";
};

/// Validates the framing of a chunked body in a connection's read buffer.
/// THREAD: one.
class ChunkedBuffer {
 public:
  /// Validates the part of `buffer` that is new since the last call. False = invalid framing, see trouble().
  bool Check(std::string_view buffer) {
    const uint64_t before = lines_.bytes();
    const ChunkLines::Verdict verdict = lines_.Read(buffer.substr(checked_));
    checked_ += lines_.bytes() - before;
    return verdict != ChunkLines::Verdict::kBad;
  }
  /// Notes that the parser has removed the first `bytes` of the buffer.
  void Consume(size_t bytes) { checked_ -= std::min(checked_, bytes); }
  const char* trouble() const { return lines_.trouble(); }

 private:
  ChunkLines lines_;
  size_t checked_ = 0;  // validated bytes at the start of the buffer
};

}  // namespace ringside
