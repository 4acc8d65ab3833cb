#include "engine/grammar/tools/lark.h"

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <map>
#include <vector>

namespace ringside {
namespace {

constexpr int kMaxDepth = 64;
constexpr uint32_t kMaxRepeats = 1000;

/// Terminals of Lark's grammar `common`.
const std::map<std::string, std::string, std::less<>>& CommonTerminals() {
  static const std::map<std::string, std::string, std::less<>> terminals = {
      {"LF", "\\n"},
      {"CR", "\\r"},
      {"NEWLINE", "(?:\\r?\\n)+"},
      {"WS", "[ \\t\\f\\r\\n]+"},
      {"WS_INLINE", "[ \\t]+"},
      {"DIGIT", "[0-9]"},
      {"HEXDIGIT", "[0-9a-fA-F]"},
      {"INT", "[0-9]+"},
      {"SIGNED_INT", "[+\\-]?[0-9]+"},
      {"DECIMAL", "(?:[0-9]+\\.[0-9]*|\\.[0-9]+)"},
      {"NUMBER", "(?:[0-9]+(?:\\.[0-9]*)?|\\.[0-9]+)(?:[eE][+\\-]?[0-9]+)?"},
      {"SIGNED_NUMBER", "[+\\-]?(?:[0-9]+(?:\\.[0-9]*)?|\\.[0-9]+)(?:[eE][+\\-]?[0-9]+)?"},
      {"LCASE_LETTER", "[a-z]"},
      {"UCASE_LETTER", "[A-Z]"},
      {"LETTER", "[a-zA-Z]"},
      {"WORD", "[a-zA-Z]+"},
      {"CNAME", "[_a-zA-Z][_a-zA-Z0-9]*"},
      {"ESCAPED_STRING", "\"(?:[^\"\\\\\\n]|\\\\.)*\""},
  };
  return terminals;
}

bool IsNameByte(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
}
bool IsBlank(char c) { return c == ' ' || c == '\t' || c == '\r' || c == '\n'; }

Status Malformed(const std::string& what) { return InvalidArgument("Lark grammar: " + what + "."); }

std::string Escaped(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (c == '\n') {
      out += "\\n";
    } else if (c == '\r') {
      out += "\\r";
    } else if (c == '\t') {
      out += "\\t";
    } else {
      if (std::string_view("\\^$.*+?()[]{}|/-").find(c) != std::string_view::npos) out += '\\';
      out += c;
    }
  }
  return out;
}

/// End of the name that starts at `at`.
size_t NameEnd(std::string_view text, size_t at) {
  while (at < text.size() && IsNameByte(text[at])) ++at;
  return at;
}

class LarkReader {
 public:
  Status Read(std::string_view grammar);
  Result<std::string> Expand(const std::string& name, int depth);

 private:
  struct Definition {
    std::string body, regex;
    bool open = false, done = false;  // being expanded; expanded
  };
  /// The rest of a body.
  struct Cursor {
    std::string_view rest;
    int depth = 0;
    void SkipBlanks();
    bool Consume(char c);
  };

  Status ReadLine(std::string_view line);
  Status ReadDirective(std::string_view line);
  Result<std::string> Alternatives(Cursor& at);
  Result<std::string> Sequence(Cursor& at);
  Result<std::string> Atom(Cursor& at);
  Result<std::string> Group(Cursor& at, char close);
  Result<std::string> String(Cursor& at);
  static Result<std::string> Literal(Cursor& at);
  static Result<std::string> Regex(Cursor& at);
  static Result<std::string> Repeated(std::string atom, Cursor& at);

  std::map<std::string, Definition, std::less<>> definitions_;
  Definition* last_ = nullptr;  // continued by a line without a name
};

void LarkReader::Cursor::SkipBlanks() {
  for (;;) {
    while (!rest.empty() && IsBlank(rest.front())) rest.remove_prefix(1);
    if (!rest.starts_with("//")) return;
    rest.remove_prefix(std::min(rest.find('\n'), rest.size()));
  }
}

bool LarkReader::Cursor::Consume(char c) {
  SkipBlanks();
  if (rest.empty() || rest.front() != c) return false;
  rest.remove_prefix(1);
  return true;
}

Status LarkReader::Read(std::string_view grammar) {
  while (!grammar.empty()) {
    const size_t end = std::min(grammar.find('\n'), grammar.size());
    RETURN_IF_ERROR(ReadLine(grammar.substr(0, end)));
    grammar.remove_prefix(std::min(end + 1, grammar.size()));
  }
  return Status::Ok();
}

Status LarkReader::ReadLine(std::string_view line) {
  size_t begin = 0;
  while (begin < line.size() && IsBlank(line[begin])) ++begin;
  const std::string_view text = line.substr(begin);
  if (text.empty() || text.starts_with("//") || text.starts_with('#')) return Status::Ok();
  if (text.starts_with('%')) return ReadDirective(text);
  size_t name = text.find_first_not_of("?!");
  if (name == std::string_view::npos) return Malformed("a line without a name");
  const size_t end = NameEnd(text, name);
  size_t colon = end;
  if (colon < text.size() && text[colon] == '.') colon = text.find_first_not_of("-0123456789", colon + 1);
  while (colon < text.size() && IsBlank(text[colon])) ++colon;
  if (end == name || colon >= text.size() || text[colon] != ':') {
    if (last_ == nullptr) return Malformed("text before the first rule");
    last_->body.append("\n").append(text);
    return Status::Ok();
  }
  if (definitions_.size() >= kMaxLarkRules) return Malformed("more than 256 rules");
  const auto [at, made] = definitions_.try_emplace(std::string(text.substr(name, end - name)));
  if (!made) return Malformed("two rules '" + at->first.substr(0, 64) + "'");
  last_ = &at->second;
  last_->body = text.substr(colon + 1);
  return Status::Ok();
}

// %import common.LF, %import common.LF -> NL, %import common (LF, WS)
Status LarkReader::ReadDirective(std::string_view line) {
  constexpr std::string_view kImport = "%import common";
  if (!line.starts_with(kImport)) return Malformed("only imports of 'common' are supported among the directives");
  last_ = nullptr;
  line.remove_prefix(kImport.size());
  std::vector<std::string> names;
  for (size_t at = 0; at < line.size();) {
    const size_t end = NameEnd(line, at);
    if (end > at) names.emplace_back(line.substr(at, end - at));
    at = std::max(end, at + 1);
  }
  const bool renamed = line.find("->") != std::string_view::npos;
  if (names.empty() || (renamed && names.size() != 2)) return Malformed("an import without a name");
  for (size_t i = 0; i < (renamed ? 1 : names.size()); ++i) {
    const auto terminal = CommonTerminals().find(names[i]);
    if (terminal == CommonTerminals().end())
      return Malformed("no terminal '" + names[i].substr(0, 64) + "' in 'common'");
    Definition& definition = definitions_[renamed ? names[1] : names[i]];
    definition.regex = terminal->second;
    definition.done = true;
  }
  return definitions_.size() <= kMaxLarkRules ? Status::Ok() : Malformed("more than 256 rules");
}

Result<std::string> LarkReader::Expand(const std::string& name, int depth) {
  const auto found = definitions_.find(name);
  if (found == definitions_.end()) return Malformed("no rule '" + name.substr(0, 64) + "'");
  Definition& definition = found->second;
  if (definition.done) return definition.regex;
  if (definition.open || depth > kMaxDepth) return Malformed("rule '" + name.substr(0, 64) + "' uses itself");
  definition.open = true;
  Cursor at{definition.body, depth};
  ASSIGN_OR_RETURN(definition.regex, Alternatives(at));
  at.SkipBlanks();
  if (!at.rest.empty()) return Malformed("unsupported syntax in rule '" + name.substr(0, 64) + "'");
  definition.open = false;
  definition.done = true;
  return definition.regex;
}

Result<std::string> LarkReader::Alternatives(Cursor& at) {
  std::string all;
  size_t count = 0;
  do {
    ASSIGN_OR_RETURN(const std::string one, Sequence(at));
    if (count++ > 0) all += '|';
    all += one;
    if (all.size() > kMaxLarkRegexBytes) return Malformed("it is too long, every rule written out where it is used");
  } while (at.Consume('|'));
  return count > 1 ? "(?:" + all + ")" : all;
}

Result<std::string> LarkReader::Sequence(Cursor& at) {
  std::string all;
  for (;;) {
    at.SkipBlanks();
    if (at.rest.empty() || std::string_view("|)]").find(at.rest.front()) != std::string_view::npos) return all;
    if (at.rest.starts_with("->")) {  // an alias: the name of a node in Lark's tree
      at.rest.remove_prefix(2);
      at.SkipBlanks();
      at.rest.remove_prefix(NameEnd(at.rest, 0));
      continue;
    }
    ASSIGN_OR_RETURN(std::string atom, Atom(at));
    ASSIGN_OR_RETURN(const std::string repeated, Repeated(std::move(atom), at));
    all += repeated;
    if (all.size() > kMaxLarkRegexBytes) return Malformed("it is too long, every rule written out where it is used");
  }
}

Result<std::string> LarkReader::Atom(Cursor& at) {
  const char c = at.rest.front();
  if (c == '(' || c == '[') return Group(at, c == '(' ? ')' : ']');
  if (c == '"') return String(at);
  if (c == '/') return Regex(at);
  const size_t end = NameEnd(at.rest, 0);
  if (end == 0) return Malformed("unsupported syntax at '" + std::string(at.rest.substr(0, 16)) + "'");
  const std::string name(at.rest.substr(0, end));
  at.rest.remove_prefix(end);
  if (at.rest.starts_with('{')) return Malformed("templates are not supported");
  ASSIGN_OR_RETURN(const std::string regex, Expand(name, at.depth + 1));
  return "(?:" + regex + ")";
}

Result<std::string> LarkReader::Group(Cursor& at, char close) {
  at.rest.remove_prefix(1);
  if (++at.depth > kMaxDepth) return Malformed("it is nested too deep");
  ASSIGN_OR_RETURN(const std::string inside, Alternatives(at));
  --at.depth;
  if (!at.Consume(close)) return Malformed("a group without its end");
  return "(?:" + inside + (close == ']' ? ")?" : ")");
}

// "text", "text"i or "a".."z"
Result<std::string> LarkReader::String(Cursor& at) {
  ASSIGN_OR_RETURN(const std::string text, Literal(at));
  if (at.rest.starts_with("..")) {
    at.rest.remove_prefix(2);
    if (!at.rest.starts_with('"')) return Malformed("a range without its end");
    ASSIGN_OR_RETURN(const std::string last, Literal(at));
    if (text.size() != 1 || last.size() != 1 || text > last)
      return Malformed("a range must have two ASCII characters in ascending order");
    return "[" + Escaped(text) + "-" + Escaped(last) + "]";
  }
  const bool any_case = at.rest.starts_with('i');
  if (!any_case) return "(?:" + Escaped(text) + ")";
  at.rest.remove_prefix(1);
  std::string out;
  for (const char c : text) {
    const bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
    const char other = static_cast<char>(c ^ 0x20);
    out += letter ? std::string{'[', c, other, ']'} : Escaped({&c, 1});
  }
  return "(?:" + out + ")";
}

Result<std::string> LarkReader::Literal(Cursor& at) {
  std::string text;
  for (size_t i = 1; i < at.rest.size(); ++i) {
    const char c = at.rest[i];
    if (c == '"') {
      at.rest.remove_prefix(i + 1);
      return text;
    }
    if (c != '\\') {
      text += c;
      continue;
    }
    if (++i == at.rest.size()) break;
    const char escaped = at.rest[i];
    if (escaped == 'x' || escaped == 'u' || escaped == 'U') return Malformed("character codes in strings");
    text += escaped == 'n' ? '\n' : escaped == 't' ? '\t' : escaped == 'r' ? '\r' : escaped == 'f' ? '\f' : escaped;
  }
  return Malformed("a string without its end");
}

Result<std::string> LarkReader::Regex(Cursor& at) {
  std::string regex;
  for (size_t i = 1; i < at.rest.size(); ++i) {
    const char c = at.rest[i];
    if (c == '/') {
      at.rest.remove_prefix(i + 1);
      if (NameEnd(at.rest, 0) > 0) return Malformed("flags of regular expressions");
      return "(?:" + regex + ")";
    }
    if (c == '\\' && i + 1 < at.rest.size()) {
      if (at.rest[i + 1] != '/') regex += c;
      regex += at.rest[++i];
    } else {
      regex += c;
    }
  }
  return Malformed("a regular expression without its end");
}

// atom?, atom*, atom+, atom~2, atom~2..5
Result<std::string> LarkReader::Repeated(std::string atom, Cursor& at) {
  if (at.rest.empty()) return atom;
  const char c = at.rest.front();
  if (c == '?' || c == '*' || c == '+') {
    at.rest.remove_prefix(1);
    return "(?:" + atom + ")" + c;
  }
  at.SkipBlanks();
  if (!at.Consume('~')) return atom;
  at.SkipBlanks();
  uint32_t least = 0, most = 0;
  const auto number = [&](uint32_t* out) {
    const auto parsed = std::from_chars(at.rest.data(), at.rest.data() + at.rest.size(), *out);
    at.rest.remove_prefix(static_cast<size_t>(parsed.ptr - at.rest.data()));
    return parsed.ec == std::errc() && *out <= kMaxRepeats;
  };
  if (!number(&least)) return Malformed("a repetition without its number, or of more than 1000 times");
  most = least;
  if (at.rest.starts_with("..")) {
    at.rest.remove_prefix(2);
    if (!number(&most) || most < least) return Malformed("a repetition without its end");
  }
  return "(?:" + atom + "){" + std::to_string(least) + "," + std::to_string(most) + "}";
}

}  // namespace

Result<std::string> LarkToRegex(std::string_view grammar) {
  LarkReader reader;
  RETURN_IF_ERROR(reader.Read(grammar));
  return reader.Expand("start", 0);
}

}  // namespace ringside
