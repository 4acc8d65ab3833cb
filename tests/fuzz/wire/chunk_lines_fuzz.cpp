// The framing of a chunked body, split anywhere. Input: the body, then the split points.
#include "tests/fuzz/fuzz_target.h"
#include "ws/transport/http/chunk_lines.h"

namespace ringside {

std::vector<std::string> Seeds() {
  return {JoinParts({"3\r\nabc\r\n0\r\n\r\nGET / HTTP/1.1\r\n", "\x01\x05"}),
          JoinParts({"2;a=\"x\\\"y\";b\r\n{}\r\na ;c=1\r\n0123456789\r\n000;d\r\n\r\n", "abc"}),
          JoinParts({"ffffffffffffffff\r\nx", ""})};
}

}  // namespace ringside

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace ringside;
  using Verdict = ChunkLines::Verdict;
  const auto parts = SplitParts(data, size, 2);
  ChunkLines at_once, in_pieces;
  const Verdict verdict = at_once.Read(parts[0]);
  Choices choices(parts[1]);
  Verdict piecewise = Verdict::kMore;
  for (size_t at = 0; at < parts[0].size() && piecewise == Verdict::kMore;) {
    const size_t end = choices.done() ? parts[0].size() : std::min(parts[0].size(), at + 1 + choices.Below(32));
    piecewise = in_pieces.Read(parts[0].substr(at, end - at));
    at = end;
  }
  Require(verdict == piecewise && at_once.bytes() == in_pieces.bytes(), "pieces make no difference");
  Require(verdict != Verdict::kBad || at_once.trouble()[0] != '\0', "it is said what is wrong");
  Require(at_once.bytes() <= parts[0].size(), "nothing is read twice");
  if (verdict != Verdict::kWhole) return 0;
  Require(parts[0].substr(0, at_once.bytes()).ends_with("\r\n\r\n"), "a body ends once");
  return 0;
}
