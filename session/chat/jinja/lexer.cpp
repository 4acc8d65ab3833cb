#include "session/chat/jinja/lexer.h"

#include <algorithm>
#include <array>

#include "base/hex.h"
#include "engine/text/unicode.h"
#include "engine/text/unicode_case.h"
#include "session/chat/jinja/text.h"

namespace ringside::jinja {
namespace {

using LexemeKind = Lexeme::Kind;

bool IsDigit(char c) { return c >= '0' && c <= '9'; }
bool IsNameByte(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || IsDigit(c) || c == '_' || static_cast<uint8_t>(c) >= 0x80;
}
std::string WithUnixNewlines(std::string_view source) {
  std::string out;
  for (size_t i = 0; i < source.size(); ++i) {
    const bool carriage = source[i] == '\r';
    if (carriage && i + 1 < source.size() && source[i + 1] == '\n') ++i;
    out += carriage ? '\n' : source[i];
  }
  if (out.ends_with('\n')) out.pop_back();
  return out;
}

class Reader {
 public:
  explicit Reader(std::string_view source) : source_(WithUnixNewlines(source)) {}

  Result<std::vector<Lexeme>> Read() {
    while (at_ < source_.size()) {
      const size_t open = FindOpening();
      const std::string_view text = std::string_view(source_).substr(at_, open - at_);
      if (open == source_.size()) {
        Add(LexemeKind::kData, std::string(text), open);
        break;
      }
      const char kind = source_[open + 1], mark = At(open + 2);
      Add(LexemeKind::kData, std::string(TrimEnd(text, kind, mark)), open);
      const int line = line_;
      Skip(mark == '-' || mark == '+' ? 3 : 2);
      if (kind == '#') {
        RETURN_IF_ERROR(SkipComment(line));
      } else if (kind == '%' && NextNameIs("raw")) {
        RETURN_IF_ERROR(ReadRaw(line));
      } else {
        RETURN_IF_ERROR(ReadInside(kind == '{', line));
      }
    }
    lexemes_.push_back({LexemeKind::kEnd, "", line_});
    return std::move(lexemes_);
  }

 private:
  char At(size_t i) const { return i < source_.size() ? source_[i] : '\0'; }
  bool Has(std::string_view text) const { return std::string_view(source_).substr(at_).starts_with(text); }

  void Skip(size_t count) {
    const size_t end = std::min(source_.size(), at_ + count);
    line_ += static_cast<int>(
        std::count(source_.begin() + static_cast<ptrdiff_t>(at_), source_.begin() + static_cast<ptrdiff_t>(end), '\n'));
    at_ = end;
  }
  void SkipSpace() { Skip(source_.size() - at_ - StripLeft(std::string_view(source_).substr(at_)).size()); }

  void Add(LexemeKind kind, std::string text, size_t end) {
    if (kind != LexemeKind::kData || !text.empty()) lexemes_.push_back({kind, std::move(text), line_});
    Skip(end - at_);
  }

  size_t FindOpening() const {
    for (size_t i = at_; i + 1 < source_.size(); ++i) {
      if (source_[i] == '{' && (source_[i + 1] == '{' || source_[i + 1] == '%' || source_[i + 1] == '#')) return i;
    }
    return source_.size();
  }

  /// The rest of the text before a tag, after a dash or lstrip_blocks.
  std::string_view TrimEnd(std::string_view text, char kind, char mark) const {
    if (mark == '-') return StripRight(text);
    if (mark == '+' || kind == '{') return text;
    const size_t line = text.rfind('\n') + 1;  // 0 if there is none
    const bool at_line_start = line > 0 || at_ == 0 || source_[at_ - 1] == '\n';
    return at_line_start && StripLeft(text.substr(line)).empty() ? text.substr(0, line) : text;
  }

  /// Skips the end of a tag, such as "%}", and what a dash or trim_blocks removes after it. False if there is none
  /// here.
  bool SkipClosing(char closing) {
    const char end[] = {closing, '}'};
    const std::string_view plain(end, 2);
    const char mark = At(at_);
    const bool marked = (mark == '-' || (mark == '+' && closing != '}')) &&
                        std::string_view(source_).substr(at_ + 1).starts_with(plain);
    if (!marked && !Has(plain)) return false;
    Skip(marked ? 3 : 2);
    if (marked && mark == '-') {
      SkipSpace();
    } else if (!marked && closing != '}' && At(at_) == '\n') {
      Skip(1);
    }
    return true;
  }

  Status SkipComment(int line) {
    while (at_ < source_.size()) {
      if (SkipClosing('#')) return Status::Ok();
      Skip(1);
    }
    return SyntaxError(line, "a comment has no end");
  }

  bool NextNameIs(std::string_view name) const {
    const std::string_view rest = StripLeft(std::string_view(source_).substr(at_));
    return rest.starts_with(name) && (rest.size() == name.size() || !IsNameByte(rest[name.size()]));
  }

  Status ReadRaw(int line) {
    SkipSpace();
    Skip(std::string_view("raw").size());
    if (At(at_) == '-' || StripLeft(std::string_view(source_).substr(at_)).starts_with('-')) {
      SkipSpace();
      if (!SkipClosing('%')) return SyntaxError(line, "'raw' takes nothing");
    } else {
      SkipSpace();
      if (!Has("%}")) return SyntaxError(line, "'raw' takes nothing");
      Skip(2);  // the newline after it stays
    }
    for (size_t open = source_.find("{%", at_); open != std::string::npos; open = source_.find("{%", open + 1)) {
      const char mark = At(open + 2);
      const size_t inside = open + (mark == '-' || mark == '+' ? 3 : 2);
      if (!StripLeft(std::string_view(source_).substr(inside)).starts_with("endraw")) continue;
      const std::string_view text = std::string_view(source_).substr(at_, open - at_);
      Add(LexemeKind::kData, std::string(TrimEnd(text, '%', mark)), inside);
      SkipSpace();
      Skip(std::string_view("endraw").size());
      SkipSpace();
      if (!SkipClosing('%')) return SyntaxError(line_, "'endraw' takes nothing");
      return Status::Ok();
    }
    return SyntaxError(line, "'raw' has no end");
  }

  Status ReadInside(bool output, int line) {
    lexemes_.push_back({output ? LexemeKind::kBeginOutput : LexemeKind::kBeginBlock, "", line});
    std::string open;  // open brackets
    while (true) {
      SkipSpace();
      if (at_ == source_.size()) return SyntaxError(line, output ? "'{{' has no end" : "'{%' has no end");
      const int here = line_;
      if (open.empty() && SkipClosing(output ? '}' : '%')) {
        lexemes_.push_back({output ? LexemeKind::kEndOutput : LexemeKind::kEndBlock, "", here});
        return Status::Ok();
      }
      const char c = source_[at_];
      if (c == '\'' || c == '"') {
        RETURN_IF_ERROR(ReadText());
      } else if (IsDigit(c)) {
        RETURN_IF_ERROR(ReadNumber());
      } else if (IsNameByte(c)) {
        size_t end = at_;
        while (IsNameByte(At(end))) ++end;
        Add(LexemeKind::kName, source_.substr(at_, end - at_), end);
      } else {
        RETURN_IF_ERROR(ReadSign(&open));
      }
    }
  }

  Status ReadSign(std::string* open) {
    static constexpr std::array<std::string_view, 26> kSigns = {"//", "**", "==", "!=", ">=", "<=", "+", "-", "/",
                                                                "*",  "%",  "~",  "[",  "]",  "(",  ")", "{", "}",
                                                                ">",  "<",  "=",  ".",  ":",  "|",  ",", ";"};
    const auto sign = std::ranges::find_if(kSigns, [&](std::string_view s) { return Has(s); });
    if (sign == kSigns.end()) return SyntaxError(line_, std::string("unexpected '") + source_[at_] + "'");
    const size_t bracket = sign->size() == 1 ? std::string_view("([{)]}").find((*sign)[0]) : std::string_view::npos;
    if (bracket < 3) {
      *open += ")]}"[bracket];
    } else if (bracket < 6) {
      if (open->empty() || open->back() != (*sign)[0])
        return SyntaxError(line_, "unexpected '" + std::string(*sign) + "'");
      open->pop_back();
    }
    Add(LexemeKind::kSign, std::string(*sign), at_ + sign->size());
    return Status::Ok();
  }

  Status ReadNumber() {
    size_t end = at_;
    const auto digits = [&] {
      while (IsDigit(At(end)) || (At(end) == '_' && IsDigit(At(end + 1)))) ++end;
    };
    const bool based = source_[at_] == '0' && std::string_view("xXoObB").find(At(at_ + 1)) != std::string_view::npos;
    if (based && At(at_ + 1) != '\0') return SyntaxError(line_, "numbers are written to the base of ten here");
    digits();
    bool fraction = false;
    if (At(end) == '.' && IsDigit(At(end + 1)) && (at_ == 0 || source_[at_ - 1] != '.')) {
      fraction = true;
      ++end;
      digits();
    }
    const size_t sign = At(end + 1) == '+' || At(end + 1) == '-' ? 1 : 0;
    if ((At(end) == 'e' || At(end) == 'E') && IsDigit(At(end + 1 + sign))) {
      fraction = true;
      end += 1 + sign;
      digits();
    }
    if (IsNameByte(At(end))) return SyntaxError(line_, "a number ends in letters");
    std::string text = source_.substr(at_, end - at_);
    std::erase(text, '_');
    Add(fraction ? LexemeKind::kFloat : LexemeKind::kInteger, std::move(text), end);
    return Status::Ok();
  }

  Status ReadText() {
    const char quote = source_[at_];
    std::string text;
    size_t i = at_ + 1;
    for (; i < source_.size() && source_[i] != quote; ++i) {
      if (source_[i] != '\\') {
        text += source_[i];
      } else if (i + 1 < source_.size()) {
        i += ReadEscape(i + 1, &text);
      }
    }
    if (i >= source_.size()) return SyntaxError(line_, "a text has no end");
    Add(LexemeKind::kText, ToValidUtf8(text), i + 1);
    return Status::Ok();
  }

  /// Appends the character of the escape whose letter is at `at`; returns its number of bytes after the backslash.
  size_t ReadEscape(size_t at, std::string* text) const {
    constexpr std::string_view kLetters = "ntrabfv\\'\"", kMeanings = "\n\t\r\a\b\f\v\\'\"";
    const char c = source_[at];
    if (c == '\n') return 1;
    if (const size_t i = kLetters.find(c); i != std::string_view::npos) {
      *text += kMeanings[i];
      return 1;
    }
    const size_t digits = c == 'x' ? 2 : c == 'u' ? 4 : c == 'U' ? 8 : 0;
    uint32_t value = 0;
    size_t read = 0;
    while (read < digits && HexDigit(At(at + 1 + read)) >= 0)
      value = value * 16 + static_cast<uint32_t>(HexDigit(At(at + 1 + read++)));
    const bool character = value <= 0x10FFFF && (value < 0xD800 || value > 0xDFFF);
    if (digits > 0 && read == digits && character) {
      AppendCodePoint(value, text);
      return 1 + digits;
    }
    if (c >= '0' && c <= '7') {
      for (read = 0, value = 0; read < 3 && At(at + read) >= '0' && At(at + read) <= '7'; ++read) {
        value = value * 8 + static_cast<uint32_t>(At(at + read) - '0');
      }
      AppendCodePoint(value, text);
      return read;
    }
    *text += '\\';  // a literal backslash
    *text += c;
    return 1;
  }

  const std::string source_;
  size_t at_ = 0;
  int line_ = 1;
  std::vector<Lexeme> lexemes_;
};

}  // namespace

Result<std::vector<Lexeme>> ReadLexemes(std::string_view source) { return Reader(ToValidUtf8(source)).Read(); }

Status SyntaxError(int line, const std::string& what) {
  return InvalidArgument("line " + std::to_string(line) + ": " + what);
}

}  // namespace ringside::jinja
