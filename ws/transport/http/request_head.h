// Reads the head of an HTTP/1 request, byte for byte as it comes, before the parser sees it, and takes nothing that two
// readers could take differently: who stands in front of this server must see the same requests as it does. Beast is
// more lenient than that, and from one version to the next in other ways. One thread.
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
    kMore,     // good so far
    kWhole,    // and at its end, bytes() from its beginning
    kBad,      // trouble() says why
    kTooLong,  // more than kMaxBytes or kMaxFields
  };
  /// `head`: all that has come of it, perhaps with what follows it; what was given before is not looked at again.
  Verdict Read(std::string_view head);
  size_t bytes() const { return read_; }
  /// A sentence.
  const char* trouble() const { return trouble_; }

 private:
  enum class Part { kMethod, kTarget, kVersion, kLineEnd, kFieldStart, kName, kValue, kFieldEnd, kHeadEnd, kDone };

  bool ReadByte(char c);
  bool ReadVersion(char c);
  /// A field's first byte, which may be the end of the head.
  bool StartField(char c);
  bool EndName();
  bool EndField();
  bool Bad(const char* trouble);

  Part part_ = Part::kMethod;
  size_t read_ = 0, part_bytes_ = 0;
  int fields_ = 0, hosts_ = 0, lengths_ = 0, encodings_ = 0;
  std::string name_, value_;  // of the field being read; only the names and values that the framing depends on
  const char* trouble_ = "";
};

}  // namespace ringside
