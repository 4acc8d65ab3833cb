#include "session/chat/jinja/text.h"

#include <algorithm>

#include "engine/text/unicode.h"
#include "engine/text/unicode_case.h"

namespace ringside::jinja {
namespace {

template <class Keep>
std::string_view StripLeftWhile(std::string_view text, const Keep& goes) {
  while (!text.empty()) {
    const CodePoint c = FirstCodePoint(text);
    if (!goes(text.substr(0, c.length), c.value)) break;
    text.remove_prefix(std::min(c.length, text.size()));
  }
  return text;
}

template <class Keep>
std::string_view StripRightWhile(std::string_view text, const Keep& goes) {
  while (!text.empty()) {
    const CodePoint c = LastCodePoint(text);
    const size_t rest = text.size() - std::min(c.length, text.size());
    if (!goes(text.substr(rest), c.value)) break;
    text = text.substr(0, rest);
  }
  return text;
}

bool IsSpaceCharacter(std::string_view, uint32_t c) { return IsPythonSpace(c); }

template <class Each>
void ForEach(std::string_view text, const Each& each) {
  for (size_t i = 0; i < text.size();) {
    const CodePoint c = FirstCodePoint(text.substr(i));
    each(c.value);
    i += c.length;
  }
}

bool IsLineEnd(uint32_t c) {
  return (c >= 0xA && c <= 0xD) || (c >= 0x1C && c <= 0x1E) || c == 0x85 || c == 0x2028 || c == 0x2029;
}
bool IsCased(uint32_t c) { return IsUpperCase(c) || IsLowerCase(c) || IsTitleCase(c); }
bool IsDigit(uint32_t c) {
  return IsDecimalDigit(c) || c == 0xB2 || c == 0xB3 || c == 0xB9 || c == 0x2070 || (c >= 0x2074 && c <= 0x2079) ||
         (c >= 0x2080 && c <= 0x2089);
}

}  // namespace

// White_Space, and the four separators that Python's str.isspace() adds.
bool IsPythonSpace(uint32_t c) { return IsUnicodeSpace(c) || (c >= 0x1C && c <= 0x1F); }

std::string_view StripLeft(std::string_view text) { return StripLeftWhile(text, IsSpaceCharacter); }
std::string_view StripRight(std::string_view text) { return StripRightWhile(text, IsSpaceCharacter); }
std::string_view Strip(std::string_view text) { return StripRight(StripLeft(text)); }
std::string_view StripLeft(std::string_view text, std::string_view characters) {
  return StripLeftWhile(text, [&](std::string_view c, uint32_t) { return characters.find(c) != characters.npos; });
}
std::string_view StripRight(std::string_view text, std::string_view characters) {
  return StripRightWhile(text, [&](std::string_view c, uint32_t) { return characters.find(c) != characters.npos; });
}

int64_t LengthOf(std::string_view text) {
  return std::ranges::count_if(text, [](char c) { return (static_cast<uint8_t>(c) & 0xC0) != 0x80; });
}

std::vector<std::string_view> CharactersOf(std::string_view text) {
  std::vector<std::string_view> characters;
  for (size_t i = 0; i < text.size();) {
    const size_t length = FirstCodePoint(text.substr(i)).length;
    characters.push_back(text.substr(i, length));
    i += length;
  }
  return characters;
}

std::string_view PartOf(std::string_view text, int64_t begin, int64_t end) {
  size_t from = text.size(), to = text.size();
  int64_t at = 0;
  for (size_t i = 0; i < text.size() && at <= end; ++at) {
    if (at == begin) from = i;
    if (at == end) to = i;
    i += FirstCodePoint(text.substr(i)).length;
  }
  return from < to ? text.substr(from, to - from) : std::string_view();
}

std::string UpperOf(std::string_view text) {
  std::string out;
  ForEach(text, [&](uint32_t c) { AppendUpper(c, &out); });
  return out;
}

std::string LowerOf(std::string_view text) {
  std::string out;
  ForEach(text, [&](uint32_t c) { AppendLower(c, &out); });
  return out;
}

std::string CapitalisedOf(std::string_view text) {
  std::string out;
  ForEach(text, [&](uint32_t c) { out.empty() ? AppendTitle(c, &out) : AppendLower(c, &out); });
  return out;
}

std::string TitleOf(std::string_view text) {
  std::string out;
  bool inside = false;
  ForEach(text, [&](uint32_t c) {
    inside ? AppendLower(c, &out) : AppendTitle(c, &out);
    inside = IsCased(c);
  });
  return out;
}

std::string TitleByBlanks(std::string_view text) {
  std::string out;
  bool inside = false;
  ForEach(text, [&](uint32_t c) {
    const bool border = IsPythonSpace(c) || c == '-' || c == '(' || c == '{' || c == '[' || c == '<';
    inside ? AppendLower(c, &out) : AppendUpper(c, &out);
    inside = !border;
  });
  return out;
}

std::vector<std::string_view> SplitWords(std::string_view text, int64_t most) {
  std::vector<std::string_view> words;
  for (text = StripLeft(text); !text.empty(); text = StripLeft(text)) {
    size_t end = 0;
    while (end < text.size() && !IsPythonSpace(FirstCodePoint(text.substr(end)).value)) {
      end += FirstCodePoint(text.substr(end)).length;
    }
    if (static_cast<int64_t>(words.size()) >= most) {
      words.push_back(text);
      break;
    }
    words.push_back(text.substr(0, end));
    text.remove_prefix(end);
  }
  return words;
}

std::vector<std::string_view> SplitWordsFromRight(std::string_view text, int64_t most) {
  std::vector<std::string_view> words;
  for (text = StripRight(text); !text.empty(); text = StripRight(text)) {
    if (static_cast<int64_t>(words.size()) >= most) {
      words.push_back(text);
      break;
    }
    const std::string_view rest = StripRightWhile(text, [](std::string_view, uint32_t c) { return !IsPythonSpace(c); });
    words.push_back(text.substr(rest.size()));
    text = rest;
  }
  std::ranges::reverse(words);
  return words;
}

std::vector<std::string_view> SplitAt(std::string_view text, std::string_view separator, int64_t most) {
  std::vector<std::string_view> parts;
  while (static_cast<int64_t>(parts.size()) < most) {
    const size_t at = text.find(separator);
    if (at == std::string_view::npos) break;
    parts.push_back(text.substr(0, at));
    text.remove_prefix(at + separator.size());
  }
  parts.push_back(text);
  return parts;
}

std::vector<std::string_view> SplitAtFromRight(std::string_view text, std::string_view separator, int64_t most) {
  std::vector<std::string_view> parts;
  while (static_cast<int64_t>(parts.size()) < most) {
    const size_t at = text.rfind(separator);
    if (at == std::string_view::npos) break;
    parts.push_back(text.substr(at + separator.size()));
    text = text.substr(0, at);
  }
  parts.push_back(text);
  std::ranges::reverse(parts);
  return parts;
}

std::vector<std::string_view> LinesOf(std::string_view text, bool with_ends) {
  std::vector<std::string_view> lines;
  size_t begin = 0;
  for (size_t i = 0; i < text.size();) {
    const CodePoint c = FirstCodePoint(text.substr(i));
    const size_t end = i;
    i += c.length;
    if (!IsLineEnd(c.value)) continue;
    if (c.value == '\r' && i < text.size() && text[i] == '\n') ++i;
    lines.push_back(text.substr(begin, (with_ends ? i : end) - begin));
    begin = i;
  }
  if (begin < text.size()) lines.push_back(text.substr(begin));
  return lines;
}

int64_t CountOf(std::string_view text, std::string_view part) {
  if (part.empty()) return LengthOf(text) + 1;
  int64_t count = 0;
  for (size_t at = text.find(part); at != text.npos; at = text.find(part, at + part.size())) ++count;
  return count;
}

std::string ReplaceIn(std::string_view text, std::string_view from, std::string_view to, int64_t most) {
  std::string out;
  if (from.empty()) {  // inserted between all characters
    for (size_t i = 0; most > 0; --most) {
      out += to;
      if (i == text.size()) return out;
      const size_t length = FirstCodePoint(text.substr(i)).length;
      out.append(text, i, length);
      i += length;
      if (most == 1) out.append(text, i);
    }
    return out.empty() ? std::string(text) : out;
  }
  size_t begin = 0;
  for (size_t at = text.find(from); at != text.npos && most > 0; at = text.find(from, begin), --most) {
    out.append(text, begin, at - begin).append(to);
    begin = at + from.size();
  }
  return out.append(text, begin);
}

bool IsAll(std::string_view text, std::string_view method) {
  bool all = !text.empty(), cased = false;
  ForEach(text, [&](uint32_t c) {
    cased = cased || IsCased(c);
    if (method == "isalpha")
      all = all && IsLetter(c);
    else if (method == "isdigit")
      all = all && IsDigit(c);
    else if (method == "isalnum")
      all = all && (IsLetter(c) || IsDigit(c));
    else if (method == "isspace")
      all = all && IsPythonSpace(c);
    else if (method == "isupper")
      all = all && !IsLowerCase(c) && !IsTitleCase(c);
    else if (method == "islower")
      all = all && !IsUpperCase(c) && !IsTitleCase(c);
    else
      all = false;
  });
  return all && (cased || (method != "isupper" && method != "islower"));
}

}  // namespace ringside::jinja
