#include "clients/terminal/markdown.h"

#include <algorithm>

#include "clients/terminal/text_width.h"

namespace ringside::client {
namespace {

using Style = StyledText::Style;

constexpr size_t kMostHeld = 2000;  // bytes; a mark that is not closed within them is text
constexpr size_t kLongestNumber = 9;

bool IsBlank(char c) { return c == ' ' || c == '\t' || c == '\n'; }
bool IsLetter(char c) {
  const auto byte = static_cast<unsigned char>(c);
  return byte >= 0x80 || (byte >= '0' && byte <= '9') || ((byte | 32) >= 'a' && (byte | 32) <= 'z');
}
bool IsPunctuation(char c) {
  const auto byte = static_cast<unsigned char>(c);
  return byte > 0x20 && byte < 0x7F && !IsLetter(c);
}

size_t RunLength(std::string_view text, size_t at) {
  size_t end = at;
  while (end < text.size() && text[end] == text[at]) ++end;
  return end - at;
}

/// What is marked at the beginning of a text: bytes from `begin` on, `size` of them, `taken` with the marks.
struct Span {
  size_t begin = 0, size = 0, taken = 0;
  unsigned style = 0;
  std::string_view address = {};  // of a link
};
/// kOpen: the text that is there does not tell yet.
enum class Found { kSpan, kText, kOpen };

/// Looks for a span at the beginning of a text; `ends`: no more of the text will come.
class SpanFinder {
 public:
  SpanFinder(std::string_view text, bool ends) : text_(text), ends_(ends) {}
  Found Find(char before, Span& span) const {
    switch (text_[0]) {
      case '`':
        return FindCode(0, span);
      case '*':
      case '_':
      case '~':
        return FindEmphasis(before, span);
      case '!':
      case '[':
        return FindLink(span);
      default:
        return Found::kText;
    }
  }

 private:
  Found Open() const { return ends_ ? Found::kText : Found::kOpen; }
  Found FindCode(size_t begin, Span& span) const;
  Found FindEmphasis(char before, Span& span) const;
  Found FindLink(Span& span) const;

  const std::string_view text_;
  const bool ends_;
};

Found SpanFinder::FindCode(size_t begin, Span& span) const {
  const std::string_view text = text_.substr(begin);
  const size_t marks = RunLength(text, 0);
  if (marks == text.size()) return Open();
  for (size_t at = marks; at < text.size(); ++at) {
    if (text[at] == '\n') return Found::kText;
    if (text[at] != '`') continue;
    const size_t run = RunLength(text, at);
    if (at + run == text.size() && run < marks) return Open();
    if (run == marks) {
      span = {marks, at - marks, at + run, Style::kCode};
      return Found::kSpan;
    }
    at += run - 1;
  }
  return Open();
}

Found SpanFinder::FindEmphasis(char before, Span& span) const {
  const std::string_view text = text_;
  const char mark = text[0];
  const size_t marks = RunLength(text, 0);
  if (marks == text.size()) return Open();
  const bool opens = !IsBlank(text[marks]) && !(IsLetter(before) && (mark == '_' || IsLetter(text[marks])));
  if (!opens || marks > 3 || (mark == '~' && marks != 2)) return Found::kText;
  for (size_t at = marks; at < text.size(); ++at) {
    if (text[at] == '\n') return Found::kText;
    if (text[at] == '\\') {
      ++at;
    } else if (text[at] == '`') {
      Span code;
      const Found found = FindCode(at, code);
      if (found == Found::kOpen) return found;
      at += found == Found::kSpan ? code.taken - 1 : RunLength(text, at) - 1;
    } else if (text[at] == mark) {
      const size_t run = RunLength(text, at);
      // More marks, or a letter behind an underscore, could follow.
      if (!ends_ && at + run == text.size() && (run < marks || mark == '_')) return Found::kOpen;
      const bool closes = run == marks && !IsBlank(text[at - 1]) &&
                          (mark != '_' || at + run == text.size() || !IsLetter(text[at + run]));
      if (closes) {
        const unsigned style = mark == '~'  ? Style::kStruck
                               : marks == 1 ? Style::kItalic
                               : marks == 2 ? Style::kBold
                                            : Style::kBold | Style::kItalic;
        span = {marks, at - marks, at + marks, style};
        return Found::kSpan;
      }
      at += run - 1;
    }
  }
  return Open();
}

Found SpanFinder::FindLink(Span& span) const {
  const std::string_view text = text_;
  const size_t bracket = text[0] == '!' ? 1 : 0;
  if (text.size() == bracket) return Open();
  if (text[bracket] != '[') return Found::kText;
  int depth = 0;
  size_t close = bracket;
  for (; close < text.size(); ++close) {
    if (text[close] == '\n') return Found::kText;
    if (text[close] == '\\') {
      ++close;
    } else if (text[close] == '[') {
      ++depth;
    } else if (text[close] == ']' && --depth == 0) {
      break;
    }
  }
  if (close + 1 >= text.size()) return Open();
  if (text[close + 1] != '(') return Found::kText;
  const size_t begin = close + 2;
  const size_t end = text.find_first_of(") \n", begin);
  if (end == std::string_view::npos) return Open();
  if (text[end] != ')' || end == begin) return Found::kText;
  span = {bracket + 1, close - bracket - 1, end + 1, Style::kLink, text.substr(begin, end - begin)};
  return Found::kSpan;
}

/// A text that ends, in which spans may stand.
void ShowSpans(std::string_view text, unsigned style, int hang, std::vector<StyledText>& shown) {
  const auto show = [&](std::string_view piece, unsigned more) {
    if (!piece.empty()) shown.push_back({std::string(piece), style | more, hang});
  };
  size_t begin = 0, at = 0;
  while (at < text.size()) {
    if (text[at] == '\\' && at + 1 < text.size() && IsPunctuation(text[at + 1])) {
      show(text.substr(begin, at - begin), 0);
      begin = at + 1;
      at += 2;
      continue;
    }
    Span span;
    if (SpanFinder(text.substr(at), true).Find(at > 0 ? text[at - 1] : ' ', span) != Found::kSpan) {
      // A run of marks is looked at once, not mark by mark.
      at += text[at] == '*' || text[at] == '_' || text[at] == '~' || text[at] == '`' ? RunLength(text, at) : 1;
      continue;
    }
    show(text.substr(begin, at - begin), 0);
    const std::string_view inner = text.substr(at + span.begin, span.size);
    if (span.style == Style::kCode) {
      show(inner, span.style);
    } else {
      ShowSpans(inner, style | span.style, hang, shown);
    }
    if (!span.address.empty() && span.address != inner) show(" (" + std::string(span.address) + ")", Style::kQuiet);
    at += span.taken;
    begin = at;
  }
  show(text.substr(begin), 0);
}

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
      return Step::kTaken;  // a quote may hold another, or a list
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

/// A line that begins with a fence's marks: it opens a block of code, closes the open one, or is a line of it.
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
  const Found found = SpanFinder(std::string_view(held_).substr(0, kMostHeld), last).Find(before_, span);
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
