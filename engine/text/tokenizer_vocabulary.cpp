#include "engine/text/tokenizer_vocabulary.h"

#include <algorithm>

#include "engine/text/tokenizer_facts.h"
#include "engine/text/unicode.h"

namespace ringside {
namespace {

using TokenType = TokenizerData::TokenType;

constexpr size_t kMaxTokenBytes = 4096;

std::string TokenText(TokenizerData::Kind kind, TokenType type, const std::string& name) {
  if (type == TokenType::kControl || type == TokenType::kUnknown) return IsPartOfAnswers(name) ? name : "";
  if (kind != TokenizerData::Kind::kByteLevelBpe) {
    if (type == TokenType::kByte) {
      if (const auto byte = ByteOfToken(name)) return std::string(1, static_cast<char>(*byte));
    }
    return ReplaceAll(name, kLowerOneEighthBlock, " ");
  }
  std::string bytes;
  return type != TokenType::kUserDefined && ByteLevelToBytes(name, &bytes) ? bytes : name;
}

}  // namespace

std::optional<Vocabulary::Matcher::Match> Vocabulary::Matcher::FindFirst(std::string_view text, size_t from) const {
  for (size_t begin = from; begin < text.size(); ++begin) {
    std::optional<Match> longest;
    uint32_t node = ByteTree::kRoot;
    for (size_t i = begin; i < text.size() && (node = tree_.Step(node, text[i])) != ByteTree::kRoot; ++i) {
      if (tree_.Value(node) >= 0) longest = Match{begin, i + 1, tree_.Value(node)};
    }
    if (longest) return longest;
  }
  return std::nullopt;
}

Result<Vocabulary> Vocabulary::Make(TokenizerData& data) {
  const size_t count = data.tokens.size();
  if (count == 0) return InvalidArgument("tokenizer: the vocabulary is empty");
  if (count > 1u << 21) return InvalidArgument("tokenizer: " + std::to_string(count) + " tokens are too many");
  if (data.types.empty()) data.types.assign(count, TokenType::kNormal);
  if (data.types.size() != count) {
    return InvalidArgument("tokenizer: " + std::to_string(data.types.size()) + " token types for " +
                           std::to_string(count) + " tokens");
  }
  Vocabulary vocabulary;
  vocabulary.names_ = std::move(data.tokens);
  vocabulary.types_ = std::move(data.types);
  vocabulary.bytes_.reserve(count);
  vocabulary.byte_tokens_.fill(-1);
  for (size_t i = 0; i < count; ++i) {
    const std::string& name = vocabulary.names_[i];
    const TokenType type = vocabulary.types_[i];
    const auto id = static_cast<TokenId>(i);
    if (name.size() > kMaxTokenBytes) {  // a longer one would make the merge table quadratically slow to fill
      return InvalidArgument("tokenizer: token " + std::to_string(i) + " is longer than 4096 bytes");
    }
    vocabulary.bytes_.push_back(TokenText(data.kind, type, name));
    if (type == TokenType::kControl || type == TokenType::kUnknown) {
      if (vocabulary.specials_.emplace(name, id).second) vocabulary.special_matcher_.Add(id, name);
    } else if (type == TokenType::kUserDefined) {
      vocabulary.user_matcher_.Add(id, name);
    } else if (type == TokenType::kByte) {
      if (const auto byte = ByteOfToken(name)) vocabulary.byte_tokens_[*byte] = id;
    }
  }
  for (size_t i = 0; i < count; ++i) {  // after the last push_back: the keys are views into bytes_
    const TokenType type = vocabulary.types_[i];
    if ((type == TokenType::kNormal || type == TokenType::kUserDefined) && !vocabulary.bytes_[i].empty()) {
      vocabulary.by_bytes_.emplace(vocabulary.bytes_[i], static_cast<TokenId>(i));
    }
  }
  const auto mark = [&](const std::vector<TokenId>& ids, std::vector<bool>* flags) -> Status {
    flags->assign(count, false);
    for (const TokenId id : ids) {
      if (!vocabulary.Contains(id)) return InvalidArgument("tokenizer: no token has the id " + std::to_string(id));
      (*flags)[static_cast<size_t>(id)] = true;
    }
    return Status::Ok();
  };
  RETURN_IF_ERROR(mark(data.strip_left, &vocabulary.strips_left_));
  RETURN_IF_ERROR(mark(data.strip_right, &vocabulary.strips_right_));
  return vocabulary;
}

bool Vocabulary::IsSpecial(TokenId id) const {
  return Contains(id) && (type(id) == TokenType::kControl || type(id) == TokenType::kUnknown);
}

std::optional<TokenId> Vocabulary::FindSpecial(std::string_view name) const {
  const auto found = specials_.find(name);
  return found == specials_.end() ? std::nullopt : std::optional(found->second);
}

std::optional<TokenId> Vocabulary::FindBytes(std::string_view bytes) const {
  const auto found = by_bytes_.find(bytes);
  return found == by_bytes_.end() ? std::nullopt : std::optional(found->second);
}

std::vector<Vocabulary::Run> Vocabulary::Cut(std::span<const TextPiece> pieces) const {
  std::vector<Run> runs;
  std::string text;
  bool trim_left = false;
  const auto flush = [&](bool trim_right) {
    text = ToValidUtf8(text);
    if (trim_left) TrimLeft(&text);
    if (trim_right) TrimRight(&text);
    CutUserDefined(text, &runs);
    text.clear();
  };
  for (const TextPiece& piece : pieces) {
    size_t from = 0;
    while (piece.markup) {
      const auto match = special_matcher_.FindFirst(piece.text, from);
      if (!match) break;
      text.append(piece.text, from, match->begin - from);
      flush(strips_left_[static_cast<size_t>(match->id)]);
      runs.push_back({match->id, ""});
      trim_left = strips_right_[static_cast<size_t>(match->id)];
      from = match->end;
    }
    text.append(piece.text, from);
  }
  flush(false);
  return runs;
}

void Vocabulary::CutUserDefined(std::string_view text, std::vector<Run>* runs) const {
  size_t from = 0;
  while (const auto match = user_matcher_.FindFirst(text, from)) {
    std::string before(text.substr(from, match->begin - from));
    const auto id = static_cast<size_t>(match->id);
    if (strips_left_[id]) TrimRight(&before);
    if (!before.empty()) runs->push_back({-1, std::move(before)});
    runs->push_back({match->id, ""});
    from = match->end;
    while (strips_right_[id] && from < text.size()) {
      const CodePoint c = FirstCodePoint(text.substr(from));
      if (!IsUnicodeSpace(c.value)) break;
      from += c.length;
    }
  }
  if (from < text.size()) runs->push_back({-1, std::string(text.substr(from))});
}

}  // namespace ringside
