#include "engine/text/byte_level_bpe.h"

#include <algorithm>
#include <array>
#include <unordered_map>

#include "engine/text/score_merges.h"
#include "engine/text/token_list.h"
#include "engine/text/tokenizer_merge.h"
#include "engine/text/tokenizer_split.h"
#include "engine/text/unicode.h"

namespace ringside {
namespace {

struct Options {
  bool normalise_nfc, ignore_merges, add_space_prefix;
  TokenId unknown;  // for bytes without a token; -1: such bytes vanish, as in the reference
};

class ByteLevelBpe : public Tokenizer {
 public:
  ByteLevelBpe(Vocabulary vocabulary, TextSplitter splitter, MergeTable merges, Options options)
      : vocabulary_(std::move(vocabulary)),
        splitter_(std::move(splitter)),
        merges_(std::move(merges)),
        options_(options) {
    for (int byte = 0; byte < 256; ++byte) {
      const char c = static_cast<char>(byte);
      byte_ids_[byte] = vocabulary_.FindBytes(std::string_view(&c, 1)).value_or(options_.unknown);
    }
    if (std::ranges::any_of(byte_ids_, [](TokenId id) { return id < 0; })) return;
    for (TokenId id = 0; id < vocabulary_.size(); ++id) {
      longest_token_ = std::max(longest_token_, std::ssize(vocabulary_.Bytes(id)));
    }
  }

  std::optional<std::vector<TokenId>> Encode(std::span<const TextPiece> pieces, int64_t max_tokens) const override {
    TokenList ids(max_tokens, longest_token_);
    for (Vocabulary::Run& run : vocabulary_.Cut(pieces)) {
      if (run.token >= 0) {
        ids.Add(run.token);
      } else if (!EncodeText(std::move(run.text), &ids)) {
        break;
      }
    }
    return ids.Take();
  }

  std::string_view TokenBytes(TokenId id) const override { return vocabulary_.Bytes(id); }
  std::string_view TokenName(TokenId id) const override { return vocabulary_.Name(id); }
  bool IsSpecial(TokenId id) const override { return vocabulary_.IsSpecial(id); }
  std::optional<TokenId> FindSpecial(std::string_view name) const override { return vocabulary_.FindSpecial(name); }
  int64_t vocab_size() const override { return vocabulary_.size(); }
  bool strips_leading_space() const override { return false; }

 private:
  // False if there is no room for it.
  bool EncodeText(std::string text, TokenList* ids) const {
    if (options_.normalise_nfc) text = NormaliseNfc(text);
    if (options_.add_space_prefix && !text.starts_with(' ')) text.insert(0, 1, ' ');
    if (!ids->HasRoomFor(text)) return false;
    std::vector<TokenId> symbols;
    return splitter_.Split(text, [&](std::string_view word) {
      if (!ids->HasRoomFor(word)) return false;
      if (options_.ignore_merges) {
        if (const auto whole = vocabulary_.FindBytes(word)) {
          ids->Add(*whole);
          return true;
        }
      }
      symbols.clear();
      for (const char c : word) {
        const TokenId id = byte_ids_[static_cast<uint8_t>(c)];
        if (id >= 0) symbols.push_back(id);
      }
      merges_.Apply(&symbols);
      ids->Add(symbols);
      return true;
    });
  }

  Vocabulary vocabulary_;
  TextSplitter splitter_;
  MergeTable merges_;
  Options options_;
  std::array<TokenId, 256> byte_ids_{};
  int64_t longest_token_ = TokenList::kUnknown;  // in bytes
};

}  // namespace

Result<MergeTable> MakeMergeTable(const Vocabulary& vocabulary, const TokenizerData& data) {
  std::unordered_map<std::string_view, TokenId> by_name;
  by_name.reserve(static_cast<size_t>(vocabulary.size()));
  for (TokenId id = 0; id < vocabulary.size(); ++id) by_name.emplace(vocabulary.Name(id), id);
  MergeTable table(data.merges.size());
  for (size_t rank = 0; rank < data.merges.size(); ++rank) {
    const auto& [left, right] = data.merges[rank];
    const auto find = [&](const std::string& name) {
      const auto found = by_name.find(name);
      return found == by_name.end() ? TokenId{-1} : found->second;
    };
    const TokenId ids[3] = {find(left), find(right), find(left + right)};
    for (const TokenId id : ids) {
      if (id < 0) {
        return InvalidArgument("tokenizer: merge " + std::to_string(rank) + " ('" + left + "' + '" + right +
                               "') names or makes no token");
      }
    }
    if (vocabulary.IsSpecial(ids[0]) || vocabulary.IsSpecial(ids[1]) || vocabulary.IsSpecial(ids[2])) continue;
    if (left.empty() || right.empty()) continue;  // no text is made of such a token
    table.Add(ids[0], ids[1], {static_cast<uint32_t>(rank), ids[2]}, LastCodePoint(left).value,
              FirstCodePoint(right).value);
  }
  return table;
}

Result<std::unique_ptr<Tokenizer>> MakeByteLevelBpe(Vocabulary vocabulary, const TokenizerData& data) {
  ASSIGN_OR_RETURN(TextSplitter splitter, TextSplitter::Make(data.split_patterns));
  SymbolTable symbols(vocabulary);
  const bool by_score = data.merges.empty() && !data.scores.empty();
  ASSIGN_OR_RETURN(MergeTable merges,
                   by_score ? MergesByScore(vocabulary, data.scores, &symbols) : MakeMergeTable(vocabulary, data));
  const Options options{data.normalise_nfc, data.ignore_merges, data.space_prefix != TokenizerData::SpacePrefix::kNone,
                        data.unknown.value_or(-1)};
  return std::unique_ptr<Tokenizer>(
      std::make_unique<ByteLevelBpe>(std::move(vocabulary), std::move(splitter), std::move(merges), options));
}

}  // namespace ringside
