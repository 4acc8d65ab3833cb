// A request's place in a distributed trace, as W3C Trace Context has it in the header `traceparent`: read from who
// asks, told in the answer and in the log, so that one id finds a request in every service that it went through. Plain
// values; any thread.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace ringside {

struct TraceContext {
  std::string trace_id;  // 32 lower-case hexadecimal digits, not all 0; "" = nobody asked: the turn was read from disk
  std::string span_id;   // 16 of them: this server's part of the trace
  bool sampled = false;  // whoever began the trace records it
};

/// The caller's place, as its header says it; nullopt unless every byte is as the specification has it. A version
/// behind 00 is read as far as 00 goes.
std::optional<TraceContext> ParseTraceparent(std::string_view header);
/// A part of the trace that `header` names, or where it names none of a new one. `random`: 32 lower-case hexadecimal
/// digits, of which the new ids are made.
TraceContext JoinTrace(std::string_view header, std::string_view random);
/// As the header of version 00 has it.
std::string Traceparent(const TraceContext& trace);

}  // namespace ringside
