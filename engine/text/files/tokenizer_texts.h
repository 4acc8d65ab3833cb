// The files that a tokenizer can come in beside a model's weights, each read as hostile input. What a folder's other
// files add to them, ReadHuggingFaceTokenizer reads (engine/text/tokenizer.h). Pure functions; any thread.
#pragma once

#include <string_view>

#include "base/status.h"
#include "engine/text/tokenizer.h"

namespace ringside {

/// tokenizer.json of the library `tokenizers`: byte-level BPE, BPE of characters, or Unigram. `bos` is the token that
/// its post-processor puts in front of a text, if it does. kInvalidArgument, naming it, for what is wrong or not
/// supported.
Result<TokenizerData> ReadTokenizerJson(std::string_view text);

/// vocab.json and merges.txt, as GPT-2 reads them.
Result<TokenizerData> ReadVocabAndMerges(std::string_view vocab, std::string_view merges);

/// SentencePiece's own file (tokenizer.model, spiece.model: a ModelProto of sentencepiece_model.proto), BPE or unigram.
/// kInvalidArgument, naming it, for what is wrong or not supported.
Result<TokenizerData> ReadSentencePieceModel(std::string_view bytes);

/// Mistral's tekken.json. kInvalidArgument, naming it, for what is wrong.
Result<TokenizerData> ReadTekken(std::string_view text);

}  // namespace ringside
