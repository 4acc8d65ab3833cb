// The process log: one line per event on standard error, as text on a terminal and as JSON objects otherwise or on
// request. Prompts, answers and keys are never logged. THREAD: any.
#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <exception>
#include <initializer_list>
#include <string>
#include <string_view>
#include <variant>

namespace ringside {

struct TraceContext;

enum class LogLevel { kDebug, kInfo, kWarning, kError };
enum class LogFormat { kAuto, kText, kJson };

/// Sets the minimum level and the line format. Call once, from main, before other threads log.
void ConfigureLog(LogLevel level, LogFormat format);
/// Parses "debug", "info", "warning" or "error"; returns false for anything else.
bool ParseLogLevel(std::string_view text, LogLevel* level);

/// A machine-readable field of a log event: a member of the JSON object. The text format prints the message alone.
struct LogField {
  std::string_view name;  // JSON member name; needs no escaping
  std::variant<std::string_view, int64_t, double> value;
};
void WriteLog(LogLevel level, std::string_view message, std::initializer_list<LogField> fields = {});

/// Scope guard: every line that this thread logs carries the trace id ("" = none). REQUIRES: `trace` outlives it.
class LogTrace {
 public:
  explicit LogTrace(const TraceContext& trace);
  ~LogTrace();
  LogTrace(const LogTrace&) = delete;
  LogTrace& operator=(const LogTrace&) = delete;

 private:
  const TraceContext* const before_;
};

/// The type name of an exception, for the log: what() may quote a prompt or an answer.
std::string TypeOf(const std::exception& error);

template <class... Args>
void LogDebug(fmt::format_string<Args...> format, Args&&... args) {
  WriteLog(LogLevel::kDebug, fmt::format(format, std::forward<Args>(args)...));
}
template <class... Args>
void LogInfo(fmt::format_string<Args...> format, Args&&... args) {
  WriteLog(LogLevel::kInfo, fmt::format(format, std::forward<Args>(args)...));
}
template <class... Args>
void LogWarning(fmt::format_string<Args...> format, Args&&... args) {
  WriteLog(LogLevel::kWarning, fmt::format(format, std::forward<Args>(args)...));
}
template <class... Args>
void LogError(fmt::format_string<Args...> format, Args&&... args) {
  WriteLog(LogLevel::kError, fmt::format(format, std::forward<Args>(args)...));
}

}  // namespace ringside
