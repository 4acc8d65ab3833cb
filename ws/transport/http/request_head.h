// Validates the head of an HTTP/1 request byte by byte before the parser sees it, and rejects anything that two parsers
// could interpret differently: a proxy in front of this server must see the same requests (request smuggling). Beast is
// more lenient, and differs between versions.
// THREAD: one.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace ringside {

class RequestHead {
 public:
  static constexpr size_t kMaxBytes = 16 << 10;
  static constexpr int kMaxFields = 100;

  enum class Verdict {
    kMore,     // valid so far
    kWhole,    // valid and complete after bytes()
    kBad,      // invalid, see trouble()
    kTooLong,  // above kMaxBytes or kMaxFields
  };
  /// `head`: everything received of it, possibly with data after it; bytes seen by an earlier call are not examined
  /// again.
  Verdict Read(std::string_view head);
  size_t bytes() const { return read_; }
  /// Error message.
  const char* trouble() const { return trouble_; }

 private:
  enum class Part { kMethod, kTarget, kVersion, kLineEnd, kFieldStart, kName, kValue, kFieldEnd, kHeadEnd, kDone };

  bool ReadByte(char c);
  bool ReadVersion(char c);
  /// Handles the first byte of a field, which may be the end of the head.
  bool StartField(char c);
  bool EndName();
  bool EndField();
  bool Bad(const char* trouble);

  Part part_ = Part::kMethod;
  size_t read_ = 0, part_bytes_ = 0;
  int fields_ = 0, hosts_ = 0, lengths_ = 0, encodings_ = 0;
  std::string name_, value_;  // current field; only names and values that affect the framing
  const char* trouble_ = "";
};

}  // namespace ringside
