// What both kinds of tokenizer share: each id's spelling, bytes and type, and the cutting of text pieces at special and
// user-defined tokens. Owned by a tokenizer; immutable after Make, any thread.
#pragma once

#include <array>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/status.h"
#include "engine/text/byte_tree.h"
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

  /// A token, or text with none of the added tokens in it (`token` < 0, `text` not empty and well-formed UTF-8).
  struct Run {
    TokenId token = -1;
    std::string text;
  };
  /// The pieces' concatenation: special tokens cut out of markup, user-defined ones out of all text.
  std::vector<Run> Cut(std::span<const TextPiece> pieces) const;

 private:
  // Tokens found by their spelling: the leftmost, and the longest there; the first added of equals.
  class Matcher {
   public:
    void Add(TokenId id, std::string_view spelling) { tree_.Add(spelling, id); }
    struct Match {
      size_t begin = 0, end = 0;
      TokenId id = -1;
    };
    std::optional<Match> FindFirst(std::string_view text, size_t from) const;

   private:
    ByteTree tree_;
  };

  Vocabulary() = default;
  void CutUserDefined(std::string_view text, std::vector<Run>* runs) const;

  std::vector<std::string> names_, bytes_;
  std::vector<TokenizerData::TokenType> types_;
  std::unordered_map<std::string_view, TokenId> specials_, by_bytes_;
  std::array<TokenId, 256> byte_tokens_{};
  std::vector<bool> strips_left_, strips_right_;
  Matcher special_matcher_, user_matcher_;
};

}  // namespace ringside
