// The head of an HTTP request, split anywhere. Input: the head, then the split points.
#include "tests/fuzz/fuzz_target.h"
#include "ws/transport/http/request_head.h"

namespace ringside {

std::vector<std::string> Seeds() {
  return {
      JoinParts(
          {"POST /v1/conversations?a=%20 HTTP/1.1\r\nHost: localhost:80\r\nContent-Length: 2\r\n\r\n{}", "\x05\x09"}),
      JoinParts(
          {"GET http://a/b HTTP/1.0\r\nhost:[::1]\r\nTransfer-Encoding: \tChunked \r\nX-Y_Z:\r\n\r\n0\r\n\r\n", "abc"}),
      JoinParts({"OPTIONS * HTTP/1.1\r\nHost: a\r\nOrigin: null\r\nX: \xC3\xA9 \x80\r\n\r\n", ""})};
}

}  // namespace ringside

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace ringside;
  using Verdict = RequestHead::Verdict;
  const auto parts = SplitParts(data, size, 2);
  RequestHead at_once, in_pieces;
  const Verdict verdict = at_once.Read(parts[0]);
  Choices choices(parts[1]);
  Verdict piecewise = Verdict::kMore;
  for (size_t end = 0; end < parts[0].size() && piecewise == Verdict::kMore;) {
    end = choices.done() ? parts[0].size() : std::min(parts[0].size(), end + 1 + choices.Below(32));
    piecewise = in_pieces.Read(parts[0].substr(0, end));
  }
  Require(verdict == piecewise && at_once.bytes() == in_pieces.bytes(), "pieces make no difference");
  Require(verdict != Verdict::kBad || at_once.trouble()[0] != '\0', "it is said what is wrong");
  if (verdict != Verdict::kWhole) return 0;
  const std::string_view head = parts[0].substr(0, at_once.bytes());
  Require(head.ends_with("\r\n\r\n") && head.find("\r\n\r\n") == head.size() - 4, "a head ends once");
  for (size_t i = 0; i < head.size(); ++i) {
    Require(head[i] != '\0' && (head[i] != '\n' || head[i - 1] == '\r') && (head[i] != '\r' || head[i + 1] == '\n'),
            "lines end in one way");
  }
  Require(head.find("\r\n ") == std::string_view::npos && head.find("\r\n\t") == std::string_view::npos, "no folding");
  return 0;
}
