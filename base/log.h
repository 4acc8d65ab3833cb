// The process log: one line per event on standard error, text on a terminal, JSON objects otherwise or when asked.
// Any thread. Prompts and answers are never logged.
#pragma once

#include <fmt/format.h>

#include <string>
#include <string_view>

namespace ringside {

enum class LogLevel { kDebug, kInfo, kWarning, kError };
enum class LogFormat { kAuto, kText, kJson };

/// Sets the least level written and the line format. Call once, from main, before other threads log.
void ConfigureLog(LogLevel level, LogFormat format);
/// Parses "debug", "info", "warning", "error"; false if it is none of them.
bool ParseLogLevel(std::string_view text, LogLevel* level);
void WriteLog(LogLevel level, std::string_view message);

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
