// Parsers of the tokenizer files that come with a model's weights, each for hostile input. ReadHuggingFaceTokenizer
// (engine/text/tokenizer.h) adds the settings of the folder's other files. Pure functions. THREAD: any.
#pragma once

#include <cstdint>
#include <string_view>

#include "base/status.h"
#include "engine/text/tokenizer.h"

namespace ringside {

inline constexpr int64_t kMaxFileTokens = 1 << 21;  // largest vocabulary that is read

/// tokenizer.json of the `tokenizers` library: byte-level BPE, character BPE, or Unigram. `bos` is the token that its
/// post-processor puts before a text, if any. ERRORS: kInvalidArgument, with the part that is malformed or not
/// supported.
Result<TokenizerData> ReadTokenizerJson(std::string_view text);

/// vocab.json and merges.txt, as GPT-2 reads them.
Result<TokenizerData> ReadVocabAndMerges(std::string_view vocab, std::string_view merges);

/// SentencePiece's own file (tokenizer.model, spiece.model: a ModelProto of sentencepiece_model.proto), BPE or Unigram.
/// ERRORS: kInvalidArgument, with the part that is malformed or not supported.
Result<TokenizerData> ReadSentencePieceModel(std::string_view bytes);

/// Mistral's tekken.json. ERRORS: kInvalidArgument, with the malformed part.
Result<TokenizerData> ReadTekken(std::string_view text);

}  // namespace ringside
