// Text to token ids and back. A Tokenizer is immutable after construction. THREAD: any.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "engine/text/pipeline/steps.h"

namespace ringside {

using TokenId = int32_t;

/// A run of text to encode. Special tokens are recognised in markup only, so that users cannot inject them; the runs
/// between special tokens are encoded across piece borders, as one string.
struct TextPiece {
  std::string text;
  bool markup = false;
};

class Tokenizer {
 public:
  virtual ~Tokenizer() = default;
  /// Ids of the pieces' concatenation; nullopt if there would be more than `max_tokens`, or if the client of this
  /// thread's request (base/request_watch.h) leaves while a long text is encoded. Bounded work: a text that is too long
  /// even for the longest tokens is not scanned further; other text is scanned up to the word that exceeds the limit.
  /// Each byte that is not UTF-8 is encoded as U+FFFD, as in the reference. Adds no token: see BeginText.
  virtual std::optional<std::vector<TokenId>> Encode(std::span<const TextPiece> pieces, int64_t max_tokens) const = 0;
  /// Encode without a limit.
  std::vector<TokenId> EncodeAll(std::span<const TextPiece> pieces) const;
  /// The bytes that a token adds to the text, possibly part of a UTF-8 character. "" for ids outside the vocabulary and
  /// for special tokens, except those that are part of an answer (IsPartOfAnswers, tokenizer_facts.h).
  virtual std::string_view TokenBytes(TokenId id) const = 0;
  /// The token's own spelling ("<|im_end|>" for a special one), for logprobs and logs.
  virtual std::string_view TokenName(TokenId id) const = 0;
  virtual bool IsSpecial(TokenId id) const = 0;
  /// The id of a special token by its spelling.
  virtual std::optional<TokenId> FindSpecial(std::string_view name) const = 0;
  virtual int64_t vocab_size() const = 0;
  /// True if SentencePiece would drop the space it put before the text (Llama 2): the first token of an answer then
  /// loses its leading space.
  virtual bool strips_leading_space() const = 0;
};

/// Prepends `begin`, if set, unless `ids` start with it.
void BeginText(std::optional<TokenId> begin, std::vector<TokenId>* ids);

/// A model file's tokenizer, from tokenizer.json or from GGUF metadata.
struct TokenizerData {
  enum class Kind { kByteLevelBpe, kSentencePieceBpe, kUnigram };
  enum class TokenType : uint8_t { kNormal, kUnknown, kControl, kUserDefined, kUnused, kByte };

  // SentencePiece's white space rules, in this order, after the rules of `charsmap`.
  struct WhiteSpace {
    bool trim_front = false, trim_back = false;  // of the text between special tokens
    bool collapse = false;                       // several spaces become one
    bool prefix = false;  // a space at the start and after each special token; a user-defined token counts as text
    bool operator==(const WhiteSpace&) const = default;
  };

  // Matching rules of a special or user-defined token.
  struct AddedToken {
    TokenId id = -1;
    bool strip_left = false, strip_right = false;  // consumes the white space on that side (Phi-3)
    bool single_word = false;                      // not inside a word
    bool normalised = false;                       // matched in the normalized text, by its normalized form
    bool operator==(const AddedToken&) const = default;
  };

  // The library whose results are exact: the two apply rules and round scores differently.
  enum class Dialect { kSentencePiece, kTokenizers };

  Kind kind = Kind::kByteLevelBpe;
  std::vector<std::string> tokens;  // by id, in the file's spelling (byte-level alphabet, or U+2581 for a space)
  std::vector<TokenType> types;     // by id
  std::vector<double> scores;       // by id: priority of the merge into the token, or log probability (unigram)
  std::vector<std::pair<std::string, std::string>> merges;  // by rank; empty: use `scores`
  // Byte-level BPE, and the `tokenizers` dialect.
  std::vector<NormaliserStep> normaliser;
  std::vector<PreTokenizerStep> pre_tokenizer;
  bool ignore_merges = false;         // a word that is a token is not merged (Llama 3)
  bool fuse_unknown = true;           // a run of unknown characters is one unknown token
  bool strips_leading_space = false;  // the decoder drops a leading space
  // The SentencePiece dialect.
  std::string charsmap;  // SentencePiece's compiled normalization rules; "" = none
  WhiteSpace white_space;
  Dialect dialect = Dialect::kSentencePiece;
  std::vector<AddedToken> added;  // only those with flags
  std::optional<TokenId> bos, eos, unknown;
  std::optional<TokenId> text_begin;  // first token of a text without a template: BOS in most families that have one
  std::vector<TokenId> end_of_turn;   // every token that ends an answer: EOS, <|im_end|>, <|eot_id|> and similar
};

/// ERRORS: kInvalidArgument, with the reason, for inconsistent data.
Result<std::unique_ptr<Tokenizer>> MakeTokenizer(TokenizerData data);

class GgufFile;
/// The tokenizer in a GGUF file's metadata. ERRORS: kInvalidArgument if there is none, or its kind or pre-tokenizer is
/// unknown.
Result<TokenizerData> ReadGgufTokenizer(const GgufFile& file);
/// The tokenizer of `folder`: tokenizer.json, else Mistral's tekken.json, else SentencePiece's tokenizer.model,
/// spiece.model, sentencepiece.model or, with fairseq's numbering (XGLM), sentencepiece.bpe.model, else vocab.json and
/// merges.txt as GPT-2 reads them; plus the settings of tokenizer_config.json and generation_config.json.
Result<TokenizerData> ReadHuggingFaceTokenizer(const std::string& folder);
/// True if `folder` has one of these, except the last: vocab.json also belongs to tokenizers other than GPT-2's.
bool HasTokenizerFile(const std::string& folder);
/// The tokenizer of a network with dummy weights: each byte is a token, the next id ends an answer, and the rest of
/// `vocab` are words " w257" ..., which no text encodes to.
TokenizerData DummyTokenizer(int64_t vocab);

}  // namespace ringside
