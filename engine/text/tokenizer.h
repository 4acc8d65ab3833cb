// Text to token ids and back. A Tokenizer is immutable after it is made and safe to use from any thread.
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

/// A run of text to encode. Special tokens are recognised in markup only, so that no user can write one; the runs
/// between special tokens are encoded across piece borders, as if the pieces had been one string.
struct TextPiece {
  std::string text;
  bool markup = false;
};

class Tokenizer {
 public:
  virtual ~Tokenizer() = default;
  /// Ids of the pieces' concatenation; nothing where they would be more than `max_tokens`. Text that is too long for
  /// that even in the vocabulary's longest tokens is not looked at any further; other text up to the word that is too
  /// much. Bytes that are not UTF-8 are encoded as U+FFFD each, as the reference does. Adds no token: see BeginText.
  virtual std::optional<std::vector<TokenId>> Encode(std::span<const TextPiece> pieces, int64_t max_tokens) const = 0;
  /// However many they are.
  std::vector<TokenId> EncodeAll(std::span<const TextPiece> pieces) const;
  /// The bytes that a token adds to the text: possibly part of a UTF-8 character; "" for ids outside the vocabulary and
  /// for special tokens, but for those that an answer says (IsPartOfAnswers, tokenizer_facts.h).
  virtual std::string_view TokenBytes(TokenId id) const = 0;
  /// The token's own spelling ("<|im_end|>" for a special one), for logprobs and logs.
  virtual std::string_view TokenName(TokenId id) const = 0;
  virtual bool IsSpecial(TokenId id) const = 0;
  /// The id of a special token by its spelling.
  virtual std::optional<TokenId> FindSpecial(std::string_view name) const = 0;
  virtual int64_t vocab_size() const = 0;
  /// True where SentencePiece would drop the space it put in front of the text (Llama 2): the first token of an answer
  /// then loses its leading space.
  virtual bool strips_leading_space() const = 0;
};

/// Puts `begin`, if there is one, in front of `ids` that do not begin with it.
void BeginText(std::optional<TokenId> begin, std::vector<TokenId>* ids);

/// Everything a model file says of its tokenizer, from tokenizer.json or from GGUF metadata.
struct TokenizerData {
  enum class Kind { kByteLevelBpe, kSentencePieceBpe, kUnigram };
  enum class TokenType : uint8_t { kNormal, kUnknown, kControl, kUserDefined, kUnused, kByte };

  // SentencePiece's changes of white space, in this order, after the rules of `charsmap`.
  struct WhiteSpace {
    bool trim_front = false, trim_back = false;  // of the text between special tokens
    bool collapse = false;                       // several spaces are one
    bool prefix = false;  // a space at the start and after each special token, a user-defined token counting as text
    bool operator==(const WhiteSpace&) const = default;
  };

  // How a special or user-defined token is found in a text.
  struct AddedToken {
    TokenId id = -1;
    bool strip_left = false, strip_right = false;  // swallows the white space on that side (Phi-3)
    bool single_word = false;                      // not as a part of a word
    bool normalised = false;                       // in the normaliser's text, by its own normal form
    bool operator==(const AddedToken&) const = default;
  };

  // Whose results are the model's own, to the last bit: the two libraries apply rules and round scores differently.
  enum class Dialect { kSentencePiece, kTokenizers };

  Kind kind = Kind::kByteLevelBpe;
  std::vector<std::string> tokens;  // by id, in the file's spelling (byte-level alphabet, or U+2581 for a space)
  std::vector<TokenType> types;     // by id
  std::vector<double> scores;       // by id: of what merges into a token, or logarithms of probabilities (unigram)
  std::vector<std::pair<std::string, std::string>> merges;  // by rank; without them `scores` tell
  // Byte-level BPE, and the dialect of `tokenizers`.
  std::vector<NormaliserStep> normaliser;
  std::vector<PreTokenizerStep> pre_tokenizer;
  bool ignore_merges = false;         // a whole word that is a token is taken as it is (Llama 3)
  bool fuse_unknown = true;           // a run of unknown characters is one unknown token
  bool strips_leading_space = false;  // the decoder drops a space that a text begins with
  // SentencePiece's dialect.
  std::string charsmap;  // SentencePiece's compiled rules of normalisation; "" = none
  WhiteSpace white_space;
  Dialect dialect = Dialect::kSentencePiece;
  std::vector<AddedToken> added;  // those that have flags
  std::optional<TokenId> bos, eos, unknown;
  std::optional<TokenId> text_begin;  // what begins a text that no template frames: bos in most families that have one
  std::vector<TokenId> end_of_turn;   // every token that ends an answer: eos and <|im_end|>, <|eot_id|> and their like
};

/// kInvalidArgument, naming what is wrong, for inconsistent data.
Result<std::unique_ptr<Tokenizer>> MakeTokenizer(TokenizerData data);

class GgufFile;
/// The tokenizer of a GGUF file's metadata. kInvalidArgument if it has none or of an unknown kind or pre-tokenizer.
Result<TokenizerData> ReadGgufTokenizer(const GgufFile& file);
/// Of `folder`: tokenizer.json, else Mistral's tekken.json, else SentencePiece's tokenizer.model, spiece.model,
/// sentencepiece.model or, numbered as fairseq numbers its pieces (XGLM), sentencepiece.bpe.model, else vocab.json and
/// merges.txt as GPT-2 reads them; and what tokenizer_ and generation_config.json say.
Result<TokenizerData> ReadHuggingFaceTokenizer(const std::string& folder);
/// True if `folder` has one of these but the last, which other tokenizers than GPT-2's have too.
bool HasTokenizerFile(const std::string& folder);
/// Of a network whose weights are made up: every byte is a token, the next one ends an answer, and the rest of `vocab`
/// are words " w257" ..., which no text becomes.
TokenizerData MadeUpTokenizer(int64_t vocab);

}  // namespace ringside
