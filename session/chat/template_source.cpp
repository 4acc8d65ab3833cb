#include "session/chat/template_source.h"

#include <algorithm>
#include <array>
#include <utility>

namespace ringside {
namespace {

bool IsSpace(char c) { return c == ' ' || c == '\t' || c == '\n' || c == '\r'; }

void ReplaceAll(std::string* text, std::string_view from, std::string_view to) {
  std::string out;
  for (size_t i = 0;;) {
    const size_t found = text->find(from, i);
    out.append(*text, i, found == std::string::npos ? found : found - i);
    if (found == std::string::npos) break;
    out.append(to);
    i = found + from.size();
  }
  *text = std::move(out);
}

// Walks the source once: text, then a block, then text ...
class Reader {
 public:
  explicit Reader(std::string_view source) : source_(source) {}

  std::string Read() {
    while (at_ < source_.size()) {
      const size_t open = FindOpening();
      std::string_view text = source_.substr(at_, open - at_);
      const bool at_line_start = lstrip_ready_;
      at_ = open;
      if (at_ == source_.size()) {
        if (text.ends_with('\n')) text.remove_suffix(1);  // Jinja drops one newline at the end
        EmitText(text);
        break;
      }
      const char kind = source_[at_ + 1];
      const char mark = at_ + 2 < source_.size() ? source_[at_ + 2] : ' ';
      if (mark == '-') {
        while (!text.empty() && IsSpace(text.back())) text.remove_suffix(1);
      } else if (kind != '{' && mark != '+') {
        text = StripToLineStart(text, at_line_start);
      }
      EmitText(text);
      at_ += mark == '-' || mark == '+' ? 3 : 2;
      ReadBlock(kind);
    }
    return std::move(out_);
  }

 private:
  size_t FindOpening() const {
    for (size_t i = at_; i + 1 < source_.size(); ++i) {
      if (source_[i] == '{' && (source_[i + 1] == '{' || source_[i + 1] == '%' || source_[i + 1] == '#')) return i;
    }
    return source_.size();
  }

  // lstrip_blocks: spaces go that stand alone between a line's start and a block.
  static std::string_view StripToLineStart(std::string_view text, bool at_line_start) {
    size_t end = text.size();
    while (end > 0 && (text[end - 1] == ' ' || text[end - 1] == '\t')) --end;
    const bool alone = end == 0 ? at_line_start : text[end - 1] == '\n';
    return alone ? text.substr(0, end) : text;
  }

  void EmitText(std::string_view text) {
    if (!text.empty()) out_.append("\x01").append(text).append("\x02");
  }

  void ReadBlock(char kind) {
    const char closing = kind == '{' ? '}' : kind;
    if (kind != '#') out_ += kind == '{' ? "{{" : "{%";
    bool dash = false;
    while (at_ < source_.size()) {
      const char c = source_[at_];
      if (c == closing && at_ + 1 < source_.size() && source_[at_ + 1] == '}') {
        at_ += 2;
        break;
      }
      dash = c == '-';
      if (kind == '#') {
        ++at_;
      } else if (c == '\'' || c == '"') {
        ReadLiteral();
      } else {
        if (!IsSpace(c)) out_ += c;
        ++at_;
      }
    }
    if (kind != '#') {
      if (dash && out_.ends_with('-')) out_.pop_back();
      out_ += kind == '{' ? "}}" : "%}";
    }
    if (dash) {
      while (at_ < source_.size() && IsSpace(source_[at_])) ++at_;
    } else if (kind != '{' && at_ < source_.size() && source_[at_] == '\n') {
      ++at_;  // trim_blocks
    }
    lstrip_ready_ = at_ == 0 || source_[at_ - 1] == '\n';
  }

  void ReadLiteral() {
    const char quote = source_[at_++];
    out_ += '\'';
    for (; at_ < source_.size() && source_[at_] != quote; ++at_) {
      char c = source_[at_];
      if (c == '\\' && at_ + 1 < source_.size()) {
        c = source_[++at_];
        if (c == 'n') c = '\n';
        if (c == 't') c = '\t';
        if (c == 'r') c = '\r';
      }
      out_ += c;
    }
    if (at_ < source_.size()) ++at_;
    out_ += '\'';
  }

  std::string_view source_;
  size_t at_ = 0;
  bool lstrip_ready_ = true;
  std::string out_;
};

}  // namespace

TemplateSource::TemplateSource(std::string_view jinja) : code_(Reader(jinja).Read()) {
  static constexpr std::array<std::pair<std::string_view, std::string_view>, 7> kSpellings = {
      {{"'+'", ""},
       {"message.role", "message['role']"},
       {"message.content", "message['content']"},
       {"messages[0].role", "messages[0]['role']"},
       {"messages[0].content", "messages[0]['content']"},
       {".strip()", "|trim"},
       {"(message['role'])", "message['role']"}}};
  for (const auto& [from, to] : kSpellings) ReplaceAll(&code_, from, to);
}

std::optional<std::string> TemplateSource::LiteralBetween(std::string_view before, std::string_view after) const {
  for (size_t at = code_.find(before); at != std::string::npos; at = code_.find(before, at + 1)) {
    const size_t begin = at + before.size();
    const size_t end = code_.find(after, begin);
    if (end == std::string::npos) break;
    std::string text = code_.substr(begin, std::min(end, code_.find('\'', begin)) - begin);
    if (!text.empty() && text.size() == end - begin) return text;
  }
  return std::nullopt;
}

}  // namespace ringside
