#include "base/trace_context.h"

#include "base/check.h"

namespace ringside {
namespace {

constexpr size_t kTraceDigits = 32, kSpanDigits = 16;
constexpr std::string_view kLayout = "vv-tttttttttttttttttttttttttttttttt-ssssssssssssssss-ff";
constexpr size_t kTraceAt = 3, kSpanAt = kTraceAt + kTraceDigits + 1, kFlagsAt = kSpanAt + kSpanDigits + 1;

int Digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

bool IsZero(std::string_view digits) { return digits.find_first_not_of('0') == std::string_view::npos; }

}  // namespace

std::optional<TraceContext> ParseTraceparent(std::string_view header) {
  if (header.size() < kLayout.size()) return std::nullopt;
  for (size_t i = 0; i < kLayout.size(); ++i) {
    if (kLayout[i] == '-' ? header[i] != '-' : Digit(header[i]) < 0) return std::nullopt;
  }
  const std::string_view version = header.substr(0, 2);
  if (version == "ff") return std::nullopt;
  if (header.size() > kLayout.size() && (version == "00" || header[kLayout.size()] != '-')) return std::nullopt;
  const std::string_view trace = header.substr(kTraceAt, kTraceDigits), span = header.substr(kSpanAt, kSpanDigits);
  if (IsZero(trace) || IsZero(span)) return std::nullopt;
  return TraceContext{std::string(trace), std::string(span), (Digit(header[kFlagsAt + 1]) & 1) != 0};
}

TraceContext JoinTrace(std::string_view header, std::string_view random) {
  CHECK_EQ(random.size(), kTraceDigits);
  TraceContext trace = ParseTraceparent(header).value_or(TraceContext{std::string(random), "", false});
  trace.span_id = random.substr(kTraceDigits - kSpanDigits);
  return trace;
}

std::string Traceparent(const TraceContext& trace) {
  return "00-" + trace.trace_id + "-" + trace.span_id + (trace.sampled ? "-01" : "-00");
}

}  // namespace ringside
