#include "clients/terminal/markdown.h"

#include <algorithm>

#include "clients/terminal/markdown_spans.h"
#include "clients/terminal/markdown_table.h"

namespace ringside::client {
namespace {

using Style = StyledText::Style;

constexpr size_t kMostHeld = 2000;  // bytes; a mark not closed within this distance is plain text
constexpr size_t kLongestNumber = 9;

}  // namespace

std::vector<StyledText> Markdown::Push(std::string_view text) {
  std::vector<StyledText> shown;
  held_.append(text);
  Read(shown, false);
  return shown;
}

std::vector<StyledText> Markdown::Finish() {
  std::vector<StyledText> shown;
  Read(shown, true);
  return shown;
}

void Markdown::Read(std::vector<StyledText>& shown, bool last) {
  while (!held_.empty()) {
    const Step step = line_begins_      ? ReadLineBegin(shown, last)
                      : !fence_.empty() ? ReadCode(shown)
                                        : ReadText(shown, last);
    if (step == Step::kWait) return;
  }
}

void Markdown::Show(std::vector<StyledText>& shown, size_t bytes, unsigned style) {
  if (bytes == 0) return;
  before_ = held_[bytes - 1];
  shown.push_back({held_.substr(0, bytes), style, hang_});
  held_.erase(0, bytes);
}

Markdown::Step Markdown::ReadLineBegin(std::vector<StyledText>& shown, bool last) {
  const bool whole = last || held_.find('\n') != std::string::npos || held_.size() > kMostHeld;
  const std::string_view line = std::string_view(held_).substr(0, held_.find('\n'));
  const size_t indent = std::min(line.find_first_not_of(' '), line.size());
  const std::string_view rest = line.substr(indent);
  if (rest.empty() && !whole) return Step::kWait;
  const char mark = rest.empty() ? '\0' : rest[0];
  const size_t marks = rest.empty() ? 0 : RunLength(rest, 0);
  const bool all_marks = marks == rest.size();
  if ((mark == '`' || mark == '~') && (marks >= 3 || (all_marks && !whole))) {
    if (!whole) return Step::kWait;
    return ReadFence(shown);
  }
  if (!fence_.empty()) {
    line_begins_ = false;
    return Step::kTaken;
  }
  if (mark == '|') return ReadTable(shown, last);
  if (mark != '\0' && std::string_view("#-*_+>").find(mark) != std::string_view::npos) {
    if (all_marks && !whole) return Step::kWait;
    const bool blank_follows = !all_marks && rest[marks] == ' ';
    if (mark == '#' && marks <= 6 && blank_follows) {
      held_.erase(0, indent + marks + 1);
      line_style_ = Style::kHeading;
    } else if (mark == '>') {
      const size_t size = indent + 1 + (rest.size() > 1 && rest[1] == ' ' ? 1 : 0);
      held_.replace(0, size, "│ ");
      hang_ += 2;
      Show(shown, std::string_view("│ ").size(), Style::kQuiet);
      return Step::kTaken;  // a quote may contain another quote or a list
    } else if (marks == 1 && blank_follows && mark != '_') {
      held_.replace(indent, 1, "•");
      hang_ += static_cast<int>(indent) + 2;
      Show(shown, indent + std::string_view("• ").size(), Style::kPlain);
    } else if (marks >= 3 && all_marks && mark != '#' && mark != '+') {
      Show(shown, indent + marks, Style::kQuiet);
    }
  } else if (mark >= '0' && mark <= '9') {
    const size_t digits = std::min(rest.find_first_not_of("0123456789"), rest.size());
    if (!whole && digits <= kLongestNumber && digits + 1 >= rest.size()) return Step::kWait;
    if (digits <= kLongestNumber && digits + 1 < rest.size() && (rest[digits] == '.' || rest[digits] == ')') &&
        rest[digits + 1] == ' ') {
      hang_ += static_cast<int>(indent + digits) + 2;
      Show(shown, indent + digits + 2, Style::kPlain);
    }
  }
  line_begins_ = false;
  return Step::kTaken;
}

/// A line that starts with a fence: opens a code block, closes the open one, or is code.
Markdown::Step Markdown::ReadFence(std::vector<StyledText>& shown) {
  const std::string line = held_.substr(0, held_.find('\n'));
  const size_t indent = line.find_first_not_of(' ');
  const size_t marks = RunLength(line, indent);
  if (fence_.empty()) {
    fence_ = line.substr(indent, marks);
  } else if (line[indent] == fence_[0] && marks >= fence_.size() &&
             line.find_first_not_of(" \t", indent + marks) == std::string::npos) {
    fence_.clear();
  } else {
    line_begins_ = false;
    return Step::kTaken;
  }
  const bool ended = line.size() < held_.size();
  Show(shown, line.size(), Style::kQuiet);
  if (ended) Show(shown, 1, Style::kPlain);
  line_begins_ = ended;
  return Step::kTaken;
}

/// A line that starts with a bar: a table if the next line is a separator.
Markdown::Step Markdown::ReadTable(std::vector<StyledText>& shown, bool last) {
  const TableText table = FindTable(held_, last);
  if (table.found == Found::kOpen) return Step::kWait;
  line_begins_ = table.found == Found::kSpan;
  if (!line_begins_) return Step::kTaken;
  ShowTable(std::string_view(held_).substr(0, table.size), shown);
  held_.erase(0, table.size);
  before_ = '\n';
  return Step::kTaken;
}

Markdown::Step Markdown::ReadCode(std::vector<StyledText>& shown) {
  const size_t newline = held_.find('\n');
  Show(shown, std::min(newline, held_.size()), Style::kCode);
  if (newline != std::string::npos) {
    Show(shown, 1, Style::kPlain);
    line_begins_ = true;
  }
  return Step::kTaken;
}

Markdown::Step Markdown::ReadText(std::vector<StyledText>& shown, bool last) {
  const size_t special = std::min(held_.find_first_of("\n\\`*_~!["), held_.size());
  Show(shown, special, line_style_);
  if (held_.empty()) return Step::kTaken;
  if (held_[0] == '\n') {
    line_begins_ = true;
    line_style_ = Style::kPlain;
    hang_ = 0;
    Show(shown, 1, Style::kPlain);
    return Step::kTaken;
  }
  if (held_[0] == '\\') {
    if (held_.size() == 1 && !last) return Step::kWait;
    if (held_.size() > 1 && IsPunctuation(held_[1])) held_.erase(0, 1);
    Show(shown, 1, line_style_);
    return Step::kTaken;
  }
  Span span;
  const Found found = FindSpan(std::string_view(held_).substr(0, kMostHeld), last, before_, span);
  if (found == Found::kOpen && !last && held_.size() < kMostHeld) return Step::kWait;
  if (found == Found::kSpan) {
    ShowSpans(std::string_view(held_).substr(0, span.taken), line_style_, hang_, shown);
    before_ = held_[span.taken - 1];
    held_.erase(0, span.taken);
  } else {
    const bool runs = held_[0] != '!' && held_[0] != '[';
    Show(shown, runs ? RunLength(held_, 0) : 1, line_style_);
  }
  return Step::kTaken;
}

}  // namespace ringside::client
