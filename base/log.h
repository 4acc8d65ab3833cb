// The process log: one line per event on standard error, text on a terminal, JSON objects otherwise or when asked.
// Any thread. Prompts, answers and keys are never logged.
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

/// Sets the least level written and the line format. Call once, from main, before other threads log.
void ConfigureLog(LogLevel level, LogFormat format);
/// Parses "debug", "info", "warning", "error"; false if it is none of them.
bool ParseLogLevel(std::string_view text, LogLevel* level);

/// A fact of an event for programs to read: a member of the line's object in JSON. Text has the message alone, which
/// says what a person needs.
struct LogField {
  std::string_view name;  // as it stands in JSON: nothing in it needs to be escaped
  std::variant<std::string_view, int64_t, double> value;
};
void WriteLog(LogLevel level, std::string_view message, std::initializer_list<LogField> fields = {});

/// While it lives, every line that this thread logs names the trace; "" names none. `trace` outlives it.
class LogTrace {
 public:
  explicit LogTrace(const TraceContext& trace);
  ~LogTrace();
  LogTrace(const LogTrace&) = delete;
  LogTrace& operator=(const LogTrace&) = delete;

 private:
  const TraceContext* const before_;
};

/// An exception's type, for the log: its words may quote what somebody said.
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
