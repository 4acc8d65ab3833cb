#include "session/chat/templates/content_marks.h"

#include <algorithm>
#include <utility>

#include "engine/text/unicode.h"

namespace ringside {
namespace {

// A code point that is permanently not a character. If a text contains it, it is written twice.
constexpr std::string_view kMark = "\xEF\xB7\x90";  // U+FDD0

}  // namespace

ContentMarks::ContentMarks(const Tokenizer& tokenizer) {
  for (TokenId id = 0; id < tokenizer.vocab_size(); ++id) {
    if (!tokenizer.IsSpecial(id) || tokenizer.TokenName(id).empty()) continue;
    specials_.emplace_back(tokenizer.TokenName(id));
    begins_.Add(specials_.back(), id);
  }
}

std::string ContentMarks::Mark(std::string_view content) const {
  const std::string text = ReplaceAll(content, kMark, std::string(kMark) + std::string(kMark));
  std::string trimmed = text;
  TrimRight(&trimmed);
  const size_t first = std::min(text.find_first_not_of(" \t\r\n"), text.size());
  const std::string_view rest = std::string_view(trimmed).substr(std::min(first, trimmed.size()));
  std::string out;
  out.reserve(text.size());
  for (size_t i = 0; i < text.size(); ++i) {
    uint32_t node = ByteTree::kRoot;
    size_t end = i;
    bool begins = false;
    while (end < text.size() && (node = begins_.Step(node, text[end])) != ByteTree::kRoot) {
      begins = begins || begins_.Value(node) >= 0;
      ++end;
    }
    // The search reached the end of the content: the template's next text could complete the token.
    begins = begins || (end > i && end >= trimmed.size() && i < trimmed.size());
    if (i == first) {
      begins = begins || std::ranges::any_of(specials_, [&](const std::string& special) {
                 for (size_t cut = 1; cut < special.size(); ++cut) {
                   if (rest.starts_with(std::string_view(special).substr(cut))) return true;
                 }
                 return false;
               });
    }
    const bool character = (static_cast<uint8_t>(text[i]) & 0xC0) != 0x80;
    if (begins && character) out += kMark;
    out.push_back(text[i]);
  }
  return out;
}

bool ContentMarks::Has(std::string_view marked) { return marked.find(kMark) != marked.npos; }

std::string ContentMarks::MoveMarks(std::string_view marked, std::string_view plain) {
  constexpr std::string_view kSpaces = " \t\r\n";
  std::string out;
  bool pending = false;  // a mark precedes the next character
  size_t i = 0, j = 0;
  while (i < marked.size() || j < plain.size()) {
    const std::string_view left = marked.substr(i), right = plain.substr(j);
    if (left.starts_with(kMark)) {
      const bool written = left.substr(kMark.size()).starts_with(kMark);  // doubled: a character of the content
      if (written && right.starts_with(kMark)) {
        out.append(kMark).append(kMark);
        j += kMark.size();
      }
      pending = !written;
      i += (written ? 2 : 1) * kMark.size();
    } else if (!left.empty() && !right.empty() && left.front() == right.front()) {
      if (std::exchange(pending, false)) out += kMark;
      out.push_back(left.front());
      ++i, ++j;
    } else if (!left.empty() && kSpaces.find(left.front()) != kSpaces.npos) {
      pending = false;
      ++i;
    } else if (!right.empty() && kSpaces.find(right.front()) != kSpaces.npos) {
      out.push_back(right.front());
      ++j;
    } else {
      return std::string(marked);
    }
  }
  return out;
}

std::vector<TextPiece> ContentMarks::TakeApart(std::string_view marked, std::vector<size_t>* borders) {
  std::vector<TextPiece> pieces;
  std::string markup;
  const auto flush = [&] {
    if (!markup.empty()) pieces.push_back({std::exchange(markup, {}), true});
  };
  size_t border = 0;
  for (size_t i = 0; i < marked.size();) {
    for (; border < borders->size() && (*borders)[border] <= i; ++border) {
      flush();
      (*borders)[border] = pieces.size();
    }
    if (!marked.substr(i).starts_with(kMark)) {
      markup.push_back(marked[i++]);
      continue;
    }
    i += kMark.size();
    const std::string_view rest = marked.substr(i);
    if (rest.starts_with(kMark)) {
      markup += kMark;
      i += kMark.size();
    } else if (!rest.empty()) {
      flush();
      const size_t length = FirstCodePoint(rest).length;
      pieces.push_back({std::string(rest.substr(0, length)), false});
      i += length;
    }
  }
  flush();
  for (; border < borders->size(); ++border) (*borders)[border] = pieces.size();
  return pieces;
}

}  // namespace ringside
