#include "engine/text/sentencepiece/merge_segmenter.h"

#include "engine/text/score_merges.h"
#include "engine/text/unicode.h"

namespace ringside {

MergeSegmenter::MergeSegmenter(int64_t vocabulary, MergeTable merges, const SymbolTable& symbols)
    : vocabulary_(vocabulary), merges_(std::move(merges)), characters_(symbols.characters()) {
  for (const auto& [character, id] : characters_) {
    if (id >= vocabulary_) AppendCodePoint(character, &spelling_[id]);
  }
}

Result<MergeSegmenter> MergeSegmenter::Make(const Vocabulary& vocabulary, const TokenizerData& data) {
  SymbolTable symbols(vocabulary);
  auto merges = data.merges.empty() && !data.scores.empty() ? MergesByScore(vocabulary, data.scores, &symbols)
                                                            : MakeMergeTable(vocabulary, data);
  if (!merges.ok()) return merges.status();
  MergeSegmenter segmenter(vocabulary.size(), std::move(*merges), symbols);
  if (!data.ignore_merges) return segmenter;
  for (const auto& [name, id] : symbols.tokens()) segmenter.whole_.emplace(name, id);
  return segmenter;
}

bool MergeSegmenter::Segment(std::string_view text, PieceOutput* out) const {
  if (!out->HasRoomFor(text)) return false;
  if (!whole_.empty()) {
    if (const auto found = whole_.find(std::string(text)); found != whole_.end()) {
      out->Add(found->second);
      return true;
    }
  }
  std::vector<TokenId> symbols;  // of the current stretch between merge boundaries
  const auto flush = [&](std::string_view rest) {
    merges_.Apply(&symbols);
    for (const TokenId symbol : symbols) {
      if (symbol < vocabulary_) {
        out->Add(symbol);
      } else {
        out->AddUnknown(spelling_.at(symbol));
      }
    }
    symbols.clear();
    return out->HasRoomFor(rest);
  };
  uint32_t previous = 0;
  while (!text.empty()) {
    const CodePoint c = FirstCodePoint(text);
    const std::string_view rest = text.substr(c.length);
    const auto found = characters_.find(c.value);
    if (found != characters_.end()) {
      if (!symbols.empty() && !merges_.MayJoin(previous, c.value) && !flush(text)) return false;
      previous = c.value;
      symbols.push_back(found->second);
    } else {
      if (!flush(text)) return false;
      out->AddUnknown(text.substr(0, c.length));
    }
    text = rest;
  }
  return flush({});
}

}  // namespace ringside
