// WebSocket frames, split anywhere. Input: lengths of the pieces, the stream.
#include <algorithm>

#include "tests/fuzz/fuzz_target.h"
#include "ws/transport/socket/frame_watch.h"

namespace ringside {
namespace {

std::string Frame(uint8_t head, std::string_view payload) {
  std::string frame = {static_cast<char>(head), static_cast<char>(0x80 | std::min<size_t>(payload.size(), 126))};
  if (payload.size() >= 126) frame += {static_cast<char>(payload.size() >> 8), static_cast<char>(payload.size())};
  return frame.append(4, '\0').append(payload);  // a zero mask
}

}  // namespace

std::vector<std::string> Seeds() {
  const std::string close =
      "\x03\xe8"
      "bye";
  return {JoinParts({"\1\2\3\4\5\6\7\x10", Frame(0x81, "Hi") + Frame(0x01, std::string(300, 'a')) +
                                               Frame(0x89, "ping") + Frame(0x80, "b") + Frame(0x88, close)}),
          JoinParts({"\1", Frame(0x82, std::string(126, 'x')) + Frame(0x8a, "") + Frame(0x88, "")}),
          JoinParts({"\x40", std::string("\x81\xff\0\0\0\0\0\0\xff\xff\1\2\3\4", 14) + Frame(0x88, "\x13\x88")})};
}

}  // namespace ringside

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace ringside;
  constexpr int64_t kLimit = 400;
  const auto parts = SplitParts(data, size, 2);
  Choices pieces(parts[0]);
  FrameWatch whole(kLimit), in_pieces(kLimit);
  const uint16_t code = whole.Read(parts[1]);
  uint16_t piecewise = 0;
  for (std::string_view rest = parts[1]; !rest.empty() && piecewise == 0;) {
    const size_t length = std::min<size_t>(1 + pieces.Byte(), rest.size());
    piecewise = in_pieces.Read(rest.substr(0, length));
    rest.remove_prefix(length);
  }
  Require(code == piecewise, "how a stream is cut decides nothing");
  Require(code == 0 || code == 1002 || code == 1007 || code == 1009, "a close code that the protocol has");
  return 0;
}
