#include "clients/terminal/markdown_spans.h"

namespace ringside::client {
namespace {

using Style = StyledText::Style;

bool IsSpace(char c) { return c == ' ' || c == '\t' || c == '\n'; }
bool IsLetter(char c) {
  const auto byte = static_cast<unsigned char>(c);
  return byte >= 0x80 || (byte >= '0' && byte <= '9') || ((byte | 32) >= 'a' && (byte | 32) <= 'z');
}

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
  const bool opens = !IsSpace(text[marks]) && !(IsLetter(before) && (mark == '_' || IsLetter(text[marks])));
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
      // More marks, or a letter after an underscore, may follow.
      if (!ends_ && at + run == text.size() && (run < marks || mark == '_')) return Found::kOpen;
      const bool closes = run == marks && !IsSpace(text[at - 1]) &&
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

}  // namespace

bool IsPunctuation(char c) {
  const auto byte = static_cast<unsigned char>(c);
  return byte > 0x20 && byte < 0x7F && !IsLetter(c);
}

size_t RunLength(std::string_view text, size_t at) {
  size_t end = at;
  while (end < text.size() && text[end] == text[at]) ++end;
  return end - at;
}

Found FindSpan(std::string_view text, bool ends, char before, Span& span) {
  return SpanFinder(text, ends).Find(before, span);
}

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
    if (FindSpan(text.substr(at), true, at > 0 ? text[at - 1] : ' ', span) != Found::kSpan) {
      // A run of marks is examined once, not mark by mark.
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

}  // namespace ringside::client
