#include "engine/text/sentencepiece/unigram_segmenter.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "engine/text/unicode.h"

namespace ringside {
namespace {

using TokenType = TokenizerData::TokenType;

constexpr double kUnknownPenalty = 10;

// The last piece of the best path that ends at a position.
struct PathEnd {
  double score = 0;
  int32_t begin = -1;  // -1: no path ends here
  TokenId id = -1;     // -1: an unknown character
};
static_assert(sizeof(PathEnd) == 16);

}  // namespace

Result<UnigramSegmenter> UnigramSegmenter::Make(const Vocabulary& vocabulary, const TokenizerData& data) {
  const bool sentencepiece = data.dialect == TokenizerData::Dialect::kSentencePiece;
  if (data.scores.size() != static_cast<size_t>(vocabulary.size())) {
    return InvalidArgument("tokenizer: " + std::to_string(data.scores.size()) + " scores for " +
                           std::to_string(vocabulary.size()) + " tokens");
  }
  UnigramSegmenter segmenter;
  segmenter.single_precision_ = sentencepiece;
  segmenter.scores_ = data.scores;
  double least = std::numeric_limits<float>::max(), most = std::numeric_limits<float>::lowest();
  for (TokenId id = 0; id < vocabulary.size(); ++id) {
    const double score = data.scores[static_cast<size_t>(id)];
    if (!std::isfinite(score)) return InvalidArgument("tokenizer: a score is not finite");
    if (sentencepiece && vocabulary.type(id) != TokenType::kNormal) continue;
    least = std::min(least, score);
    most = std::max(most, score);
  }
  segmenter.unknown_score_ = least - kUnknownPenalty;
  if (sentencepiece) segmenter.unknown_score_ = static_cast<float>(segmenter.unknown_score_);
  for (TokenId id = 0; id < vocabulary.size(); ++id) {
    const TokenType type = vocabulary.type(id);
    const std::string_view name = vocabulary.Name(id);
    if (type != TokenType::kNormal && type != TokenType::kUserDefined) continue;
    if (ToValidUtf8(name) != name) continue;
    segmenter.pieces_.Add(name, id);
    // Makes every path that contains it likelier than any other.
    if (sentencepiece && type == TokenType::kUserDefined) {
      segmenter.scores_[static_cast<size_t>(id)] = static_cast<float>(name.size()) * static_cast<float>(most) - 0.1;
    }
  }
  return segmenter;
}

bool UnigramSegmenter::Segment(std::string_view text, PieceOutput* out) const {
  if (!out->HasRoomFor(text)) return false;
  std::vector<PathEnd> ends(text.size() + 1);
  const auto offer = [&](size_t begin, size_t end, double score, TokenId id) {
    score += ends[begin].score;
    if (single_precision_) score = static_cast<float>(score);  // the sum of two floats, rounded once
    PathEnd& best = ends[end];
    if (best.begin >= 0 && score <= best.score) return;
    best = {score, static_cast<int32_t>(begin), id};
  };
  for (size_t begin = 0; begin < text.size();) {
    const size_t character_end = begin + FirstCodePoint(text.substr(begin)).length;
    bool character_known = false;
    uint32_t node = ByteTree::kRoot;
    for (size_t i = begin; i < text.size() && (node = pieces_.Step(node, text[i])) != ByteTree::kRoot; ++i) {
      const TokenId id = pieces_.Value(node);
      if (id < 0) continue;
      offer(begin, i + 1, scores_[static_cast<size_t>(id)], id);
      character_known = character_known || i + 1 == character_end;
    }
    if (!character_known) offer(begin, character_end, unknown_score_, -1);
    begin = character_end;
  }
  std::vector<size_t> path;
  for (size_t end = text.size(); end > 0; end = static_cast<size_t>(ends[end].begin)) path.push_back(end);
  for (size_t i = path.size(); i-- > 0;) {
    const PathEnd& piece = ends[path[i]];
    const auto begin = static_cast<size_t>(piece.begin);
    if (piece.id >= 0) {
      out->Add(piece.id);
    } else {
      out->AddUnknown(text.substr(begin, path[i] - begin));
    }
  }
  return true;
}

}  // namespace ringside
