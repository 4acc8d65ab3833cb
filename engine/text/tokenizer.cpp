#include "engine/text/tokenizer.h"

#include <limits>

#include "engine/text/byte_level_bpe.h"
#include "engine/text/sentencepiece/sentencepiece_tokenizer.h"
#include "engine/text/tokenizer_vocabulary.h"

namespace ringside {

std::vector<TokenId> Tokenizer::EncodeAll(std::span<const TextPiece> pieces) const {
  return *Encode(pieces, std::numeric_limits<int64_t>::max());
}

Result<std::unique_ptr<Tokenizer>> MakeTokenizer(TokenizerData data) {
  const auto count = static_cast<TokenId>(data.tokens.size());
  const auto known = [&](const std::optional<TokenId>& id) { return !id || (*id >= 0 && *id < count); };
  if (!known(data.bos) || !known(data.eos) || !known(data.unknown)) {
    return InvalidArgument("tokenizer: bos, eos or unknown lies outside the vocabulary");
  }
  ASSIGN_OR_RETURN(Vocabulary vocabulary, Vocabulary::Make(data));
  switch (data.kind) {
    case TokenizerData::Kind::kByteLevelBpe:
      return MakeByteLevelBpe(std::move(vocabulary), data);
    case TokenizerData::Kind::kSentencePieceBpe:
    case TokenizerData::Kind::kUnigram:
      return MakeSentencePiece(std::move(vocabulary), data);
  }
  return InvalidArgument("tokenizer: unknown kind");
}

}  // namespace ringside
