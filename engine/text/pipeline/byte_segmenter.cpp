#include "engine/text/pipeline/byte_segmenter.h"

#include <algorithm>

#include "engine/text/score_merges.h"

namespace ringside {

Result<ByteSegmenter> ByteSegmenter::Make(const Vocabulary& vocabulary, const TokenizerData& data) {
  SymbolTable symbols(vocabulary);
  const bool by_score = data.merges.empty() && !data.scores.empty();
  ASSIGN_OR_RETURN(MergeTable merges,
                   by_score ? MergesByScore(vocabulary, data.scores, &symbols) : MakeMergeTable(vocabulary, data));
  ByteSegmenter made(std::move(merges));
  made.ignore_merges_ = data.ignore_merges;
  for (int byte = 0; byte < 256; ++byte) {
    const char c = static_cast<char>(byte);
    made.byte_ids_[static_cast<size_t>(byte)] =
        vocabulary.FindBytes(std::string_view(&c, 1)).value_or(data.unknown.value_or(-1));
  }
  if (std::ranges::any_of(made.byte_ids_, [](TokenId id) { return id < 0; })) return made;
  for (TokenId id = 0; id < vocabulary.size(); ++id) {
    made.longest_token_ = std::max(made.longest_token_, std::ssize(vocabulary.Bytes(id)));
  }
  return made;
}

void ByteSegmenter::Segment(const Vocabulary& vocabulary, std::string_view word, std::vector<TokenId>* symbols,
                            TokenList* ids) const {
  if (ignore_merges_) {
    if (const auto whole = vocabulary.FindBytes(word)) {
      ids->Add(*whole);
      return;
    }
  }
  symbols->clear();
  for (const char c : word) {
    const TokenId id = byte_ids_[static_cast<uint8_t>(c)];
    if (id >= 0) symbols->push_back(id);
  }
  merges_.Apply(symbols);
  ids->Add(*symbols);
}

}  // namespace ringside
