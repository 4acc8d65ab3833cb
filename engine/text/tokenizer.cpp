#include "engine/text/tokenizer.h"

#include <limits>

#include "base/request_watch.h"
#include "engine/text/pipeline/pipeline_tokenizer.h"
#include "engine/text/sentencepiece/sentencepiece_tokenizer.h"
#include "engine/text/tokenizer_vocabulary.h"

namespace ringside {

std::vector<TokenId> Tokenizer::EncodeAll(std::span<const TextPiece> pieces) const {
  const RequestWatch uninterrupted([] { return false; });
  return *Encode(pieces, std::numeric_limits<int64_t>::max());
}

void BeginText(std::optional<TokenId> begin, std::vector<TokenId>* ids) {
  if (begin && (ids->empty() || ids->front() != *begin)) ids->insert(ids->begin(), *begin);
}

Result<std::unique_ptr<Tokenizer>> MakeTokenizer(TokenizerData data) {
  const auto count = static_cast<TokenId>(data.tokens.size());
  const auto known = [&](const std::optional<TokenId>& id) { return !id || (*id >= 0 && *id < count); };
  if (!known(data.bos) || !known(data.eos) || !known(data.unknown) || !known(data.text_begin)) {
    return InvalidArgument("tokenizer: bos, eos, unknown or text_begin is outside the vocabulary");
  }
  ASSIGN_OR_RETURN(Vocabulary vocabulary, Vocabulary::Make(data));
  const bool sentencepiece =
      data.kind != TokenizerData::Kind::kByteLevelBpe && data.dialect == TokenizerData::Dialect::kSentencePiece;
  return sentencepiece ? MakeSentencePiece(std::move(vocabulary), data)
                       : MakePipelineTokenizer(std::move(vocabulary), data);
}

}  // namespace ringside
