#include "engine/import/ini_file.h"

#include <fmt/format.h>

#include "engine/files/mapped_file.h"

namespace ringside {
namespace {

constexpr size_t kMaxIniBytes = 1 << 20;
constexpr size_t kMaxIniValues = 4096;

bool IsSpace(char c) { return c == ' ' || c == '\t' || c == '\r'; }

std::string_view Trimmed(std::string_view text) {
  while (!text.empty() && IsSpace(text.front())) text.remove_prefix(1);
  while (!text.empty() && IsSpace(text.back())) text.remove_suffix(1);
  return text;
}

// A comment starts the line, or follows a space.
std::string_view WithoutComment(std::string_view line) {
  for (size_t i = 0; i < line.size(); ++i) {
    const bool mark = line[i] == ';' || line[i] == '#';
    if (mark && (i == 0 || IsSpace(line[i - 1]))) return line.substr(0, i);
  }
  return line;
}

std::string Lower(std::string_view text) {
  std::string out(text);
  for (char& c : out) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
  return out;
}

}  // namespace

Result<IniFile> IniFile::Parse(std::string_view text, const std::string& source) {
  if (text.size() > kMaxIniBytes) return Corruption(fmt::format("{}: longer than {} bytes", source, kMaxIniBytes));
  IniFile out;
  Values* section = nullptr;
  std::string* value = nullptr;  // value of the previous key; an indented line continues it
  size_t line_number = 0, values = 0;
  while (!text.empty()) {
    const size_t end = text.find('\n');
    const std::string_view raw = text.substr(0, end);
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
    ++line_number;
    const auto wrong = [&](std::string_view what) {
      return Corruption(fmt::format("{}: line {} {}", source, line_number, what));
    };
    if (raw.find('\0') != std::string_view::npos) return wrong("has a zero byte");
    const std::string_view line = Trimmed(WithoutComment(raw));
    if (line.empty()) continue;
    if (IsSpace(raw.front()) && value != nullptr) {
      value->append("\n").append(line);
      continue;
    }
    if (line.front() == '[') {
      if (line.back() != ']') return wrong("has an unterminated section name");
      section = &out.sections_[Lower(Trimmed(line.substr(1, line.size() - 2)))];
      value = nullptr;
    } else {
      const size_t sign = line.find_first_of("=:");
      if (sign == std::string_view::npos || sign == 0) return wrong("is neither a section nor 'name = value'");
      if (section == nullptr) return wrong("precedes every section");
      const auto [place, fresh] =
          section->emplace(Lower(Trimmed(line.substr(0, sign))), Trimmed(line.substr(sign + 1)));
      if (!fresh) return wrong(fmt::format("repeats '{}'", place->first));
      value = &place->second;
    }
    if (++values > kMaxIniValues) return wrong("exceeds the limit of values");
  }
  return out;
}

Result<IniFile> IniFile::ReadFile(const std::string& path) {
  ASSIGN_OR_RETURN(const auto file, MappedFile::Open(path));
  return Parse({reinterpret_cast<const char*>(file->bytes().data()), file->bytes().size()}, path);
}

std::optional<std::string> IniFile::Find(std::string_view section, std::string_view name) const {
  const auto values = sections_.find(section);
  if (values == sections_.end()) return std::nullopt;
  const auto found = values->second.find(name);
  return found == values->second.end() ? std::nullopt : std::optional(found->second);
}

}  // namespace ringside
