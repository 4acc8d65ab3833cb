// What both kinds of tokenizer share: each id's spelling, bytes and type, and the cutting of text pieces at special and
// user-defined tokens. Owned by a tokenizer; immutable after Make, any thread.
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

  /// Takes the tokens and types of `data`. kInvalidArgument if lists differ in length or name ids that do not exist.
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
  /// The id of the token that stands for one byte and nothing else (SentencePiece's <0x0A>), or -1.
  TokenId ByteToken(uint8_t byte) const { return byte_tokens_[byte]; }

  /// The pieces' concatenation: special tokens cut out of markup, user-defined ones out of all text, but for those that
  /// are found in normalised text (NormalisedTokens). Special ones of these are, in markup, where some piece is none:
  /// what a user wrote must not become one.
  std::vector<TokenRun> Cut(std::span<const TextPiece> pieces) const;
  /// The tokens that a normaliser's text is searched for: of text, or of pieces that are all markup.
  const std::vector<TokenizerData::AddedToken>& NormalisedTokens(bool markup) const {
    return markup ? normalised_markup_ : normalised_text_;
  }

 private:
  Vocabulary() = default;
  Status AddTokens(const TokenizerData& data);
  // `before`, `after`: the special tokens that the text stands between.
  void CutText(std::string_view bytes, const TokenizerData::AddedToken* before, const TokenizerData::AddedToken* after,
               std::vector<TokenRun>* runs) const;

  std::vector<std::string> names_, bytes_;
  std::vector<TokenizerData::TokenType> types_;
  std::unordered_map<std::string_view, TokenId> specials_, by_bytes_;
  std::array<TokenId, 256> byte_tokens_{};
  AddedTokens in_text_, in_markup_;  // user-defined tokens; special ones as well
  AddedTokens in_markup_only_;       // as in_markup_, where all pieces are markup
  std::vector<TokenizerData::AddedToken> normalised_text_, normalised_markup_;
};

/// A tokenizer whose ids are those of a vocabulary.
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
