#include "session/tools/tool_definitions.h"

#include <algorithm>

namespace ringside {
namespace {

constexpr size_t kIndent = 4;

/// JSON over several lines, as Python's json.dumps(..., indent=4) prints it.
std::string Indented(std::string_view json) {
  std::string out;
  size_t depth = 0;
  bool in_string = false, escaped = false;
  const auto new_line = [&] { out.append("\n").append(depth * kIndent, ' '); };
  for (size_t i = 0; i < json.size(); ++i) {
    const char c = json[i];
    if (in_string) {
      out += c;
      in_string = escaped || c != '"';
      escaped = !escaped && c == '\\';
    } else if (c == '{' || c == '[') {
      out += c;
      if (i + 1 < json.size() && json[i + 1] == c + 2) {  // empty
        out += json[++i];
        continue;
      }
      ++depth;
      new_line();
    } else if (c == '}' || c == ']') {
      depth -= std::min<size_t>(depth, 1);
      new_line();
      out += c;
    } else if (c == ',') {
      out += c;
      new_line();
    } else if (c == ':') {
      out += ": ";
    } else if (c != ' ') {
      out += c;
      in_string = c == '"';
    }
  }
  return out;
}

}  // namespace

std::string FormatTools(std::string_view lines, const ToolSyntax& syntax) {
  std::string told;
  for (bool first = true; !lines.empty(); first = false) {
    const std::string_view line = lines.substr(0, lines.find('\n'));
    lines.remove_prefix(std::min(line.size() + 1, lines.size()));
    if (!first) told += syntax.between_tools;
    syntax.indented ? told += Indented(line) : told += line;
  }
  return told;
}

}  // namespace ringside
