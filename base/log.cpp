#include "base/log.h"

#include <cxxabi.h>
#include <fmt/format.h>
#include <spdlog/pattern_formatter.h>
#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstdlib>
#include <memory>
#include <typeinfo>

#include "base/trace_context.h"

namespace ringside {
namespace {

std::atomic<bool> json{false};
thread_local const TraceContext* current_trace = nullptr;

/// Length in bytes of the UTF-8 character at the start of `text`; 0 if it is malformed.
size_t CharacterBytes(std::string_view text) {
  const auto byte = [text](size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char lead = byte(0);
  if (lead < 0x80) return 1;
  const size_t bytes = lead >= 0xC2 && lead < 0xE0   ? 2
                       : (lead & 0xF0) == 0xE0       ? 3
                       : lead >= 0xF0 && lead < 0xF5 ? 4
                                                     : 0;
  if (bytes == 0 || text.size() < bytes) return 0;
  for (size_t i = 1; i < bytes; ++i) {
    if ((byte(i) & 0xC0) != 0x80) return 0;
  }
  // Overlong encoding, surrogate, or beyond U+10FFFF.
  const bool none = (lead == 0xE0 && byte(1) < 0xA0) || (lead == 0xED && byte(1) >= 0xA0) ||
                    (lead == 0xF0 && byte(1) < 0x90) || (lead == 0xF4 && byte(1) >= 0x90);
  return none ? 0 : bytes;
}

/// Appends a JSON string. Malformed UTF-8 (in a file name, for example) becomes U+FFFD.
void AppendString(std::string& out, std::string_view text) {
  out += '"';
  while (!text.empty()) {
    const size_t bytes = CharacterBytes(text);
    const auto first = static_cast<unsigned char>(text[0]);
    if (bytes == 0) {
      out += "\\ufffd";
    } else if (first == '"' || first == '\\') {
      out += {'\\', text[0]};
    } else if (first < 0x20 || first == 0x7f) {
      out += fmt::format("\\u{:04x}", static_cast<unsigned>(first));
    } else {
      out += text.substr(0, bytes);
    }
    text.remove_prefix(std::max<size_t>(bytes, 1));
  }
  out += '"';
}

void AppendValue(std::string& out, const LogField& field) {
  if (const auto* text = std::get_if<std::string_view>(&field.value)) return AppendString(out, *text);
  if (const auto* whole = std::get_if<int64_t>(&field.value)) {
    out += std::to_string(*whole);
    return;
  }
  const double number = std::get<double>(field.value);
  out += std::isfinite(number) ? fmt::format("{:.3f}", number) : "null";
}

spdlog::level::level_enum Translate(LogLevel level) {
  switch (level) {
    case LogLevel::kDebug:
      return spdlog::level::debug;
    case LogLevel::kInfo:
      return spdlog::level::info;
    case LogLevel::kWarning:
      return spdlog::level::warn;
    case LogLevel::kError:
      return spdlog::level::err;
  }
  return spdlog::level::info;
}

spdlog::logger& Logger() {
  static const auto logger = spdlog::stderr_logger_mt("ringside");
  return *logger;
}

}  // namespace

void ConfigureLog(LogLevel level, LogFormat format) {
  Logger().set_level(Translate(level));
  json = format == LogFormat::kJson || (format == LogFormat::kAuto && isatty(STDERR_FILENO) == 0);
  auto formatter = std::make_unique<spdlog::pattern_formatter>(spdlog::pattern_time_type::utc);
  formatter->set_pattern(json ? R"({"ts":"%Y-%m-%dT%H:%M:%S.%eZ","level":"%l",%v})" : "%H:%M:%S.%e %-7l %v");
  Logger().set_formatter(std::move(formatter));
}

bool ParseLogLevel(std::string_view text, LogLevel* level) {
  if (text == "debug")
    *level = LogLevel::kDebug;
  else if (text == "info")
    *level = LogLevel::kInfo;
  else if (text == "warning")
    *level = LogLevel::kWarning;
  else if (text == "error")
    *level = LogLevel::kError;
  else
    return false;
  return true;
}

LogTrace::LogTrace(const TraceContext& trace) : before_(current_trace) { current_trace = &trace; }
LogTrace::~LogTrace() { current_trace = before_; }

std::string TypeOf(const std::exception& error) {
  const char* name = typeid(error).name();
  int failed = 0;
  const std::unique_ptr<char, void (*)(void*)> readable(abi::__cxa_demangle(name, nullptr, nullptr, &failed),
                                                        std::free);
  return failed == 0 ? readable.get() : name;
}

void WriteLog(LogLevel level, std::string_view message, std::initializer_list<LogField> fields) {
  const spdlog::level::level_enum wanted = Translate(level);
  if (!Logger().should_log(wanted)) return;
  const TraceContext* trace = current_trace != nullptr && !current_trace->trace_id.empty() ? current_trace : nullptr;
  if (!json && trace == nullptr) return Logger().log(wanted, message);
  if (!json) return Logger().log(wanted, fmt::format("{}; trace {}", message, trace->trace_id));
  std::string members = "\"msg\":";
  AppendString(members, message);
  const auto add = [&members](const LogField& field) {
    members.append(",\"").append(field.name).append("\":");
    AppendValue(members, field);
  };
  for (const LogField& field : fields) add(field);
  if (trace != nullptr) {
    add({"trace_id", trace->trace_id});
    add({"span_id", trace->span_id});
  }
  Logger().log(wanted, members);
}

}  // namespace ringside
