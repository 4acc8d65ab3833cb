// A request's position in a distributed trace (W3C Trace Context, header `traceparent`). It is read from the caller and
// returned in the answer and in the log, so that one id finds a request in every service on its way. Plain values.
// THREAD: any.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace ringside {

struct TraceContext {
  std::string trace_id;  // 32 lower-case hexadecimal digits, not all 0; "" = no caller: the turn was read from disk
  std::string span_id;   // 16 lower-case hexadecimal digits: this server's span
  bool sampled = false;  // the caller records this trace
};

/// Parses the caller's header; nullopt if it deviates from the specification in any byte. Only the fields of version 00
/// are read from a later version.
std::optional<TraceContext> ParseTraceparent(std::string_view header);
/// A new span in the trace of `header`, or in a new trace if `header` is not valid. `random`: 32 lower-case hexadecimal
/// digits, the source of the new ids.
TraceContext JoinTrace(std::string_view header, std::string_view random);
/// Formats a version 00 header.
std::string Traceparent(const TraceContext& trace);

}  // namespace ringside
