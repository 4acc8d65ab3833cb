#include "engine/text/sentencepiece/sentencepiece_tokenizer.h"

#include <algorithm>
#include <variant>

#include "engine/text/sentencepiece/merge_segmenter.h"
#include "engine/text/sentencepiece/text_normaliser.h"
#include "engine/text/sentencepiece/unigram_segmenter.h"
#include "engine/text/unicode.h"

namespace ringside {
namespace {

using PieceSegmenter = std::variant<MergeSegmenter, UnigramSegmenter>;

struct PieceOptions {
  bool prefix;      // TokenizerData::WhiteSpace
  TokenId unknown;  // -1: characters without a token or byte tokens are dropped
};

class SentencePieceTokenizer : public VocabularyTokenizer {
 public:
  SentencePieceTokenizer(Vocabulary vocabulary, TextNormaliser normaliser, PieceSegmenter segmenter,
                         PieceOptions options)
      : VocabularyTokenizer(std::move(vocabulary)),
        normaliser_(std::move(normaliser)),
        segmenter_(std::move(segmenter)),
        options_(options) {
    for (int byte = 0; byte < 256; ++byte) {
      if (vocabulary_.ByteToken(static_cast<uint8_t>(byte)) < 0) return;
    }
    for (TokenId id = 0; id < vocabulary_.size(); ++id) {
      if (!vocabulary_.IsSpecial(id)) longest_token_ = std::max(longest_token_, std::ssize(vocabulary_.Name(id)));
    }
  }

  std::optional<std::vector<TokenId>> Encode(std::span<const TextPiece> pieces, int64_t max_tokens) const override {
    TokenList ids(max_tokens, longest_token_);
    const std::vector<TokenRun> runs = vocabulary_.Cut(pieces);
    bool behind_special = true;  // only dropped white space since the last special token
    for (size_t i = 0; i < runs.size(); ++i) {
      const TokenId token = runs[i].token;
      if (token >= 0 && vocabulary_.IsSpecial(token)) {
        ids.Add(token);
        behind_special = true;
        continue;
      }
      const bool last = i + 1 == runs.size() || (runs[i + 1].token >= 0 && vocabulary_.IsSpecial(runs[i + 1].token));
      const std::string text = token < 0 ? normaliser_.Apply(runs[i].text, behind_special, last) : std::string();
      if (token < 0 && text.empty()) continue;
      if (!EncodeRun(token, text, behind_special, &ids)) break;
      behind_special = false;
    }
    return ids.Take();
  }

  bool strips_leading_space() const override { return options_.prefix; }

 private:
  // Encodes a user-defined token, or text. False if there is no room.
  bool EncodeRun(TokenId token, std::string_view text, bool behind_special, TokenList* ids) const {
    const bool prefixed = options_.prefix && behind_special;
    if (token < 0) return EncodeText((prefixed ? " " : "") + std::string(text), ids);
    if (prefixed && !EncodeText(" ", ids)) return false;
    ids->Add(token);
    return true;
  }

  bool EncodeText(std::string_view text, TokenList* ids) const {
    const std::string escaped = ReplaceAll(text, " ", kLowerOneEighthBlock);
    PieceOutput out(vocabulary_, options_.unknown, /*fuse_unknown=*/true, ids);
    return ids->HasRoomFor(escaped) &&
           std::visit([&](const auto& segmenter) { return segmenter.Segment(escaped, &out); }, segmenter_);
  }

  TextNormaliser normaliser_;
  PieceSegmenter segmenter_;
  PieceOptions options_;
  int64_t longest_token_ = TokenList::kUnknown;  // in bytes
};

Result<PieceSegmenter> MakePieceSegmenter(const Vocabulary& vocabulary, const TokenizerData& data) {
  if (data.kind == TokenizerData::Kind::kUnigram) {
    ASSIGN_OR_RETURN(UnigramSegmenter unigram, UnigramSegmenter::Make(vocabulary, data));
    return PieceSegmenter(std::move(unigram));
  }
  ASSIGN_OR_RETURN(MergeSegmenter merges, MergeSegmenter::Make(vocabulary, data));
  return PieceSegmenter(std::move(merges));
}

}  // namespace

Result<std::unique_ptr<Tokenizer>> MakeSentencePiece(Vocabulary vocabulary, const TokenizerData& data) {
  ASSIGN_OR_RETURN(TextNormaliser normaliser, TextNormaliser::Make(data));
  ASSIGN_OR_RETURN(PieceSegmenter segmenter, MakePieceSegmenter(vocabulary, data));
  const PieceOptions options{data.white_space.prefix, data.unknown.value_or(-1)};
  return std::unique_ptr<Tokenizer>(std::make_unique<SentencePieceTokenizer>(
      std::move(vocabulary), std::move(normaliser), std::move(segmenter), options));
}

}  // namespace ringside
