#include "clients/chat/repl/multi_line.h"

#include <string_view>
#include <utility>

namespace ringside::client {
namespace {

constexpr std::string_view kQuotes = "\"\"\"";

std::string_view TrimRight(std::string_view text) {
  const size_t last = text.find_last_not_of(" \t");
  return last == std::string_view::npos ? std::string_view() : text.substr(0, last + 1);
}

}  // namespace

void MultiLine::Clear() {
  open_ = Open::kNo;
  text_.clear();
}

std::string MultiLine::Take() {
  open_ = Open::kNo;
  return std::exchange(text_, {});
}

std::optional<std::string> MultiLine::Push(const std::string& line) {
  std::string_view rest = line;
  if (open_ == Open::kNo && rest.starts_with(kQuotes)) {
    open_ = Open::kQuotes;
    rest.remove_prefix(kQuotes.size());
    if (TrimRight(rest).empty()) return std::nullopt;  // only the quotes: the text begins on the next line
  } else if (open_ == Open::kQuotes && !text_.empty()) {
    text_ += '\n';
  }
  if (open_ == Open::kQuotes) {
    const std::string_view trimmed = TrimRight(rest);
    if (trimmed.ends_with(kQuotes)) {
      text_ += trimmed.substr(0, trimmed.size() - kQuotes.size());
      if (text_.ends_with('\n')) text_.pop_back();
      return Take();
    }
    text_ += rest;
    return std::nullopt;
  }
  const bool pasted = rest.find('\n') != std::string_view::npos;
  if (!pasted && rest.ends_with('\\')) {
    text_ += rest.substr(0, rest.size() - 1);
    text_ += '\n';
    open_ = Open::kBackslash;
    return std::nullopt;
  }
  text_ += rest;
  return Take();
}

}  // namespace ringside::client
