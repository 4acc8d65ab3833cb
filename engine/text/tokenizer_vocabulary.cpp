#include "engine/text/tokenizer_vocabulary.h"

#include <algorithm>

#include "engine/text/tokenizer_facts.h"
#include "engine/text/unicode.h"
#include "engine/text/unicode_case.h"

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
    if (name.size() > kMaxTokenBytes) {  // longer ones would make the merge table quadratically slow to fill
      return InvalidArgument("tokenizer: token " + std::to_string(i) + " is longer than 4096 bytes");
    }
    vocabulary.bytes_.push_back(TokenText(data.kind, type, name));
    if (type == TokenType::kControl || type == TokenType::kUnknown) {
      vocabulary.specials_.emplace(name, id);
    } else if (type == TokenType::kByte) {
      if (const auto byte = ByteOfToken(name)) vocabulary.byte_tokens_[*byte] = id;
    }
  }
  for (size_t i = 0; i < count; ++i) {  // after the last push_back, because the keys are views into bytes_
    const TokenType type = vocabulary.types_[i];
    if ((type == TokenType::kNormal || type == TokenType::kUserDefined) && !vocabulary.bytes_[i].empty()) {
      vocabulary.by_bytes_.emplace(vocabulary.bytes_[i], static_cast<TokenId>(i));
    }
  }
  RETURN_IF_ERROR(vocabulary.AddTokens(data));
  return vocabulary;
}

Status Vocabulary::AddTokens(const TokenizerData& data) {
  std::unordered_map<TokenId, TokenizerData::AddedToken> flags;
  for (const TokenizerData::AddedToken& token : data.added) {
    if (!Contains(token.id)) return InvalidArgument("tokenizer: no token has the id " + std::to_string(token.id));
    flags[token.id] = token;
  }
  for (TokenId id = 0; id < size(); ++id) {
    const bool special = IsSpecial(id);
    if (!special && type(id) != TokenType::kUserDefined) continue;
    const auto found = flags.find(id);
    const TokenizerData::AddedToken token = found == flags.end() ? TokenizerData::AddedToken{.id = id} : found->second;
    const bool normalised = token.normalised && !data.normaliser.empty();
    if (normalised) normalised_markup_.push_back(token);
    if (normalised && !special) normalised_text_.push_back(token);
    if (!normalised && !special) in_text_.Add(token, Name(id));
    if (!normalised && special) in_text_.Pass(Name(id));
    if (!normalised) in_markup_only_.Add(token, Name(id));
    if (!normalised || special) in_markup_.Add(token, Name(id));
  }
  return Status::Ok();
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

std::vector<TokenRun> Vocabulary::Cut(std::span<const TextPiece> pieces) const {
  const AddedTokens& tokens = std::ranges::all_of(pieces, &TextPiece::markup) ? in_markup_only_ : in_markup_;
  std::vector<TokenRun> runs;
  std::string text;
  const TokenizerData::AddedToken* before = nullptr;
  for (size_t i = 0; i < pieces.size(); ++i) {
    const std::string& piece = pieces[i].text;
    size_t from = 0, searched = 0;
    while (pieces[i].markup) {
      const auto match = tokens.FindFirst(piece, searched);
      if (!match) break;
      searched = match->end;
      const bool before_word = i + 1 < pieces.size() && BeginsWithWord(pieces[i + 1].text);
      if (!IsSpecial(match->token->id) || !AddedTokens::IsWhole(*match, piece, EndsWithWord(text), before_word))
        continue;
      text.append(piece, from, match->begin - from);
      SplitText(text, before, match->token, &runs);
      runs.push_back({match->token->id, ""});
      text.clear();
      before = match->token;
      from = match->end;
    }
    text.append(piece, from);
  }
  SplitText(text, before, nullptr, &runs);
  return runs;
}

void Vocabulary::SplitText(std::string_view bytes, const TokenizerData::AddedToken* before,
                           const TokenizerData::AddedToken* after, std::vector<TokenRun>* runs) const {
  std::string text = ToValidUtf8(bytes);
  if (before != nullptr && before->strip_right) TrimLeft(&text);
  if (after != nullptr && after->strip_left) TrimRight(&text);
  in_text_.Cut(text, before != nullptr && EndsWithWord(Name(before->id)),
               after != nullptr && BeginsWithWord(Name(after->id)), runs);
}

}  // namespace ringside
