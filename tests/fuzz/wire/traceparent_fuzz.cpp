// A client's traceparent header: for any value, the server returns and logs a valid trace context.
#include "base/trace_context.h"
#include "tests/fuzz/fuzz_target.h"

namespace ringside {

std::vector<std::string> Seeds() {
  return {"00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
          "01-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-00-more",
          "00-00000000000000000000000000000000-0000000000000000-00", ""};
}

}  // namespace ringside

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace ringside;
  const std::string_view header(reinterpret_cast<const char*>(data), size);
  const std::string random = "0123456789abcdef0f1e2d3c4b5a6978";
  const TraceContext trace = JoinTrace(header, random);
  const auto told = ParseTraceparent(Traceparent(trace));
  Require(told && told->trace_id == trace.trace_id && told->span_id == trace.span_id && told->sampled == trace.sampled,
          "what is told is read as it is meant");
  Require(trace.span_id == random.substr(16), "the part is the server's own");
  Require(trace.trace_id == random || header.substr(3, 32) == trace.trace_id, "the trace is the header's or a new one");
  return 0;
}
