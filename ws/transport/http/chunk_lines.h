// Reads the framing of a chunked body, byte for byte as it comes, before the parser sees it: as RequestHead, it accepts
// nothing that two readers could take differently. Chunk extensions are ignored, as RFC 9112 section 7.1.1 demands, and
// bounded. One thread.
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
    kMore,   // good so far
    kWhole,  // and at its end, after bytes() of the body
    kBad,    // see trouble()
  };
  /// `bytes`: the next of the body, perhaps with what follows it.
  Verdict Read(std::string_view bytes);
  uint64_t bytes() const { return read_; }
  /// A sentence.
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
  uint64_t read_ = 0, left_ = 0;  // left_: of the chunk
  size_t digits_ = 0, extension_bytes_ = 0;
  bool named_ = false;  // the extension has begun with its name
  bool blank_ = false;  // after the size: only an extension may follow
  const char* trouble_ = "";
};

/// Checks the framing of a chunked body in a connection's read buffer. One thread.
class ChunkedBuffer {
 public:
  /// Checks the bytes of `buffer` that are new since the last call. False = bad framing, see trouble().
  bool Check(std::string_view buffer) {
    const uint64_t before = lines_.bytes();
    const ChunkLines::Verdict verdict = lines_.Read(buffer.substr(checked_));
    checked_ += lines_.bytes() - before;
    return verdict != ChunkLines::Verdict::kBad;
  }
  /// The parser has removed the first `bytes` of the buffer.
  void Consume(size_t bytes) { checked_ -= std::min(checked_, bytes); }
  const char* trouble() const { return lines_.trouble(); }

 private:
  ChunkLines lines_;
  size_t checked_ = 0;  // bytes at the beginning of the buffer
};

}  // namespace ringside
