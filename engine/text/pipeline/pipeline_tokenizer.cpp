#include "engine/text/pipeline/pipeline_tokenizer.h"

#include <algorithm>
#include <variant>

#include "engine/text/pipeline/byte_segmenter.h"
#include "engine/text/pipeline/normaliser.h"
#include "engine/text/pipeline/pre_tokenizer.h"
#include "engine/text/sentencepiece/merge_segmenter.h"
#include "engine/text/sentencepiece/unigram_segmenter.h"
#include "engine/text/unicode.h"

namespace ringside {
namespace {

using Segmenter = std::variant<ByteSegmenter, MergeSegmenter, UnigramSegmenter>;

struct Options {
  TokenId unknown;  // -1: characters without a token are dropped
  bool fuse_unknown, strips_leading_space;
};

class PipelineTokenizer : public VocabularyTokenizer {
 public:
  PipelineTokenizer(Vocabulary vocabulary, Normaliser normaliser, PreTokenizer pre_tokenizer, Segmenter segmenter,
                    Options options)
      : VocabularyTokenizer(std::move(vocabulary)),
        normaliser_(std::move(normaliser)),
        pre_tokenizer_(std::move(pre_tokenizer)),
        segmenter_(std::move(segmenter)),
        options_(options),
        longest_token_(LongestToken()) {
    TextMatcher::Scratch scratch;
    for (const bool markup : {false, true}) {
      for (const TokenizerData::AddedToken& token : vocabulary_.NormalisedTokens(markup)) {
        const std::string spelling = normaliser_.Apply(std::string(vocabulary_.Name(token.id)), scratch);
        normalised_tokens_[markup ? 1 : 0].Add(token, spelling);
      }
    }
  }

  std::optional<std::vector<TokenId>> Encode(std::span<const TextPiece> pieces, int64_t max_tokens) const override {
    TokenList ids(max_tokens, longest_token_);
    TextMatcher::Scratch scratch;
    const AddedTokens& normalised_tokens = normalised_tokens_[std::ranges::all_of(pieces, &TextPiece::markup) ? 1 : 0];
    bool first = true;
    for (TokenRun& run : vocabulary_.Cut(pieces)) {
      std::vector<TokenRun> runs;
      if (run.token >= 0) {
        runs.push_back(std::move(run));
      } else {
        normalised_tokens.Cut(normaliser_.Apply(std::move(run.text), scratch), false, false, &runs);
      }
      for (const TokenRun& part : runs) {
        if (part.token >= 0) {
          ids.Add(part.token);
        } else if (!EncodeText(part.text, first, scratch, &ids)) {
          return ids.Take();
        }
        first = false;
      }
      first = false;
    }
    return ids.Take();
  }

  bool strips_leading_space() const override { return options_.strips_leading_space; }

 private:
  // TokenList's bound, in bytes of a word.
  int64_t LongestToken() const {
    if (const auto* bytes = std::get_if<ByteSegmenter>(&segmenter_)) return bytes->longest_token();
    for (int byte = 0; byte < 256; ++byte) {
      if (vocabulary_.ByteToken(static_cast<uint8_t>(byte)) < 0) return TokenList::kUnknown;
    }
    int64_t longest = 0;
    for (TokenId id = 0; id < vocabulary_.size(); ++id) longest = std::max(longest, std::ssize(vocabulary_.Name(id)));
    return longest;
  }

  // False if there is no room.
  bool EncodeText(std::string_view text, bool first, TextMatcher::Scratch& scratch, TokenList* ids) const {
    if (pre_tokenizer_.keeps_all() && !ids->HasRoomFor(text)) return false;
    std::vector<TokenId> symbols;
    return pre_tokenizer_.Split(text, first, scratch, [&](std::string_view word) {
      if (!ids->HasRoomFor(word)) return false;
      if (const auto* bytes = std::get_if<ByteSegmenter>(&segmenter_)) {
        bytes->Segment(vocabulary_, word, &symbols, ids);
        return true;
      }
      PieceOutput out(vocabulary_, options_.unknown, options_.fuse_unknown, ids);
      if (const auto* merges = std::get_if<MergeSegmenter>(&segmenter_)) return merges->Segment(word, &out);
      return std::get<UnigramSegmenter>(segmenter_).Segment(word, &out);
    });
  }

  Normaliser normaliser_;
  PreTokenizer pre_tokenizer_;
  Segmenter segmenter_;
  Options options_;
  int64_t longest_token_;
  AddedTokens normalised_tokens_[2];  // in text, in markup
};

Result<Segmenter> MakeSegmenter(const Vocabulary& vocabulary, const TokenizerData& data) {
  if (data.kind == TokenizerData::Kind::kByteLevelBpe) {
    ASSIGN_OR_RETURN(ByteSegmenter bytes, ByteSegmenter::Make(vocabulary, data));
    return Segmenter(std::move(bytes));
  }
  if (data.kind == TokenizerData::Kind::kUnigram) {
    ASSIGN_OR_RETURN(UnigramSegmenter unigram, UnigramSegmenter::Make(vocabulary, data));
    return Segmenter(std::move(unigram));
  }
  ASSIGN_OR_RETURN(MergeSegmenter merges, MergeSegmenter::Make(vocabulary, data));
  return Segmenter(std::move(merges));
}

}  // namespace

Result<std::unique_ptr<Tokenizer>> MakePipelineTokenizer(Vocabulary vocabulary, const TokenizerData& data) {
  const bool to_bytes = data.kind == TokenizerData::Kind::kByteLevelBpe;
  const bool spelled = std::ranges::find(data.normaliser, NormaliserStep::Kind::kByteLevel, &NormaliserStep::kind) !=
                       data.normaliser.end();
  ASSIGN_OR_RETURN(Normaliser normaliser, Normaliser::Make(data.normaliser));
  ASSIGN_OR_RETURN(PreTokenizer pre_tokenizer, PreTokenizer::Make(data.pre_tokenizer, to_bytes, spelled));
  ASSIGN_OR_RETURN(Segmenter segmenter, MakeSegmenter(vocabulary, data));
  const Options options{data.unknown.value_or(-1), data.fuse_unknown, data.strips_leading_space};
  return std::unique_ptr<Tokenizer>(std::make_unique<PipelineTokenizer>(
      std::move(vocabulary), std::move(normaliser), std::move(pre_tokenizer), std::move(segmenter), options));
}

}  // namespace ringside
