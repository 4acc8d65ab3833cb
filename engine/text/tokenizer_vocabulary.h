// Common part of all tokenizers: spelling, bytes and type of each id, and the split of text pieces at special and
// user-defined tokens. Owned by a tokenizer; immutable after Make. THREAD: any.
#pragma once

#include <array>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/status.h"
#include "engine/text/added_tokens.h"
#include "engine/text/tokenizer.h"

namespace ringside {

class Vocabulary {
 public:
  Vocabulary(Vocabulary&&) = default;
  Vocabulary& operator=(Vocabulary&&) = default;
  Vocabulary(const Vocabulary&) = delete;  // the maps' keys are views into its own strings
  Vocabulary& operator=(const Vocabulary&) = delete;

  /// Moves the tokens and types out of `data`. ERRORS: kInvalidArgument if lists differ in length or have ids that do
  /// not exist.
  static Result<Vocabulary> Make(TokenizerData& data);

  int64_t size() const { return static_cast<int64_t>(names_.size()); }
  bool Contains(TokenId id) const { return id >= 0 && id < size(); }
  TokenizerData::TokenType type(TokenId id) const { return types_[static_cast<size_t>(id)]; }
  std::string_view Name(TokenId id) const { return Contains(id) ? std::string_view(names_[id]) : std::string_view(); }
  std::string_view Bytes(TokenId id) const { return Contains(id) ? std::string_view(bytes_[id]) : std::string_view(); }
  bool IsSpecial(TokenId id) const;
  std::optional<TokenId> FindSpecial(std::string_view name) const;
  /// A normal token by its bytes; the lowest id of several.
  std::optional<TokenId> FindBytes(std::string_view bytes) const;
  /// The id of the byte token of one byte (SentencePiece's <0x0A>), or -1.
  TokenId ByteToken(uint8_t byte) const { return byte_tokens_[byte]; }

  /// Splits the pieces' concatenation: at special tokens in markup, at user-defined ones in all text, except those
  /// matched in normalized text (NormalisedTokens). Special tokens among the latter are split here, in markup, if some
  /// piece is not markup: a user's text must not become one.
  std::vector<TokenRun> Cut(std::span<const TextPiece> pieces) const;
  /// The tokens to match in normalized text: for text, or for pieces that are all markup.
  const std::vector<TokenizerData::AddedToken>& NormalisedTokens(bool markup) const {
    return markup ? normalised_markup_ : normalised_text_;
  }

 private:
  Vocabulary() = default;
  Status AddTokens(const TokenizerData& data);
  // `before`, `after`: the special tokens around the text.
  void SplitText(std::string_view bytes, const TokenizerData::AddedToken* before,
                 const TokenizerData::AddedToken* after, std::vector<TokenRun>* runs) const;

  std::vector<std::string> names_, bytes_;
  std::vector<TokenizerData::TokenType> types_;
  std::unordered_map<std::string_view, TokenId> specials_, by_bytes_;
  std::array<TokenId, 256> byte_tokens_{};
  AddedTokens in_text_, in_markup_;  // in_text_: user-defined tokens; in_markup_: also special ones
  AddedTokens in_markup_only_;       // as in_markup_, for pieces that are all markup
  std::vector<TokenizerData::AddedToken> normalised_text_, normalised_markup_;
};

/// A tokenizer over the ids of a vocabulary.
class VocabularyTokenizer : public Tokenizer {
 public:
  std::string_view TokenBytes(TokenId id) const final { return vocabulary_.Bytes(id); }
  std::string_view TokenName(TokenId id) const final { return vocabulary_.Name(id); }
  bool IsSpecial(TokenId id) const final { return vocabulary_.IsSpecial(id); }
  std::optional<TokenId> FindSpecial(std::string_view name) const final { return vocabulary_.FindSpecial(name); }
  int64_t vocab_size() const final { return vocabulary_.size(); }

 protected:
  explicit VocabularyTokenizer(Vocabulary vocabulary) : vocabulary_(std::move(vocabulary)) {}

  const Vocabulary vocabulary_;
};

}  // namespace ringside
