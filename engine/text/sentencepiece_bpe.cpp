#include "engine/text/sentencepiece_bpe.h"

#include <algorithm>
#include <cmath>
#include <unordered_map>

#include "base/check.h"
#include "engine/text/byte_level_bpe.h"
#include "engine/text/token_list.h"
#include "engine/text/tokenizer_merge.h"
#include "engine/text/unicode.h"

namespace ringside {
namespace {

using TokenType = TokenizerData::TokenType;
using SpacePrefix = TokenizerData::SpacePrefix;

// Characters as symbols: a token's id, or, for a character that is only part of tokens, an id past the vocabulary.
using Characters = std::unordered_map<uint32_t, TokenId>;

struct Options {
  bool nfc;
  SpacePrefix prefix;
  TokenId unknown;  // -1: what has no token and no byte tokens vanishes
};

class SentencePieceBpe : public Tokenizer {
 public:
  SentencePieceBpe(Vocabulary vocabulary, MergeTable merges, Characters characters, Options options)
      : vocabulary_(std::move(vocabulary)),
        merges_(std::move(merges)),
        characters_(std::move(characters)),
        options_(options) {
    for (const auto& [character, id] : characters_) {
      if (id >= vocabulary_.size()) character_of_[id] = character;
    }
    for (int byte = 0; byte < 256; ++byte) {
      if (vocabulary_.ByteToken(static_cast<uint8_t>(byte)) < 0) return;
    }
    for (TokenId id = 0; id < vocabulary_.size(); ++id) {
      if (!vocabulary_.IsSpecial(id)) longest_token_ = std::max(longest_token_, std::ssize(vocabulary_.Name(id)));
    }
  }

  std::optional<std::vector<TokenId>> Encode(std::span<const TextPiece> pieces, int64_t max_tokens) const override {
    TokenList ids(max_tokens, longest_token_);
    bool first = true, behind_special = true;
    for (const Vocabulary::Run& run : vocabulary_.Cut(pieces)) {
      const bool special = run.token >= 0 && vocabulary_.IsSpecial(run.token);
      const bool prefixed = !special && WantsPrefix(run, first, behind_special);
      if (run.token < 0) {
        if (!EncodeText(prefixed ? " " + run.text : run.text, &ids)) break;
      } else {
        if (prefixed && !EncodeText(" ", &ids)) break;
        ids.Add(run.token);
      }
      first = false;
      behind_special = special;
    }
    return ids.Take();
  }

  std::string_view TokenBytes(TokenId id) const override { return vocabulary_.Bytes(id); }
  std::string_view TokenName(TokenId id) const override { return vocabulary_.Name(id); }
  bool IsSpecial(TokenId id) const override { return vocabulary_.IsSpecial(id); }
  std::optional<TokenId> FindSpecial(std::string_view name) const override { return vocabulary_.FindSpecial(name); }
  int64_t vocab_size() const override { return vocabulary_.size(); }
  bool strips_leading_space() const override { return options_.prefix != SpacePrefix::kNone; }

 private:
  // `run` is text or a user-defined token.
  bool WantsPrefix(const Vocabulary::Run& run, bool first, bool behind_special) const {
    const bool is_text = run.token < 0;
    const bool present = run.text.starts_with(' ') || run.text.starts_with(kLowerOneEighthBlock);
    switch (options_.prefix) {
      case SpacePrefix::kNone:
        return false;
      case SpacePrefix::kBehindSpecials:
        return behind_special;
      case SpacePrefix::kEveryRun:
        return is_text;
      case SpacePrefix::kEveryRunIfAbsent:
        return is_text && !present;
      case SpacePrefix::kFirstRunIfAbsent:
        return is_text && first && !present;
    }
    return false;
  }

  // False if there is no room for it.
  bool EncodeText(const std::string& raw, TokenList* ids) const {
    const std::string text = options_.nfc ? NormaliseNfc(raw) : raw;
    if (!ids->HasRoomFor(text)) return false;
    std::vector<TokenId> symbols;  // of the stretch that merges may join
    const auto flush = [&](std::string_view rest) {
      merges_.Apply(&symbols);
      for (const TokenId symbol : symbols) {
        if (symbol < vocabulary_.size()) {
          ids->Add(symbol);
        } else {
          SpellOut(character_of_.at(symbol), ids);
        }
      }
      symbols.clear();
      return ids->HasRoomFor(rest);
    };
    bool after_unknown = false;
    uint32_t previous = 0;
    for (size_t i = 0; i < text.size();) {
      const std::string_view rest = std::string_view(text).substr(i);
      CodePoint c = FirstCodePoint(rest);
      i += c.length;
      if (c.value == ' ') c.value = 0x2581;
      const auto found = characters_.find(c.value);
      if (found != characters_.end()) {
        if (!symbols.empty() && !merges_.MayJoin(previous, c.value) && !flush(rest)) return false;
        previous = c.value;
        symbols.push_back(found->second);
        after_unknown = false;
        continue;
      }
      if (!flush(rest)) return false;
      const bool unknown = SpellOut(c.value, ids);
      if (unknown && after_unknown) ids->Drop();  // a run of unknown characters is one unknown token
      after_unknown = unknown;
    }
    return flush({});
  }

  // The character's byte tokens; where one is missing, the unknown token, and true.
  bool SpellOut(uint32_t character, TokenList* ids) const {
    std::string bytes;
    AppendCodePoint(character, &bytes);
    const bool spelled =
        std::ranges::all_of(bytes, [&](char c) { return vocabulary_.ByteToken(static_cast<uint8_t>(c)) >= 0; });
    if (spelled) {
      for (const char c : bytes) ids->Add(vocabulary_.ByteToken(static_cast<uint8_t>(c)));
      return false;
    }
    if (options_.unknown < 0) return false;
    ids->Add(options_.unknown);
    return true;
  }

  Vocabulary vocabulary_;
  MergeTable merges_;
  Characters characters_;
  std::unordered_map<TokenId, uint32_t> character_of_;  // of ids past the vocabulary
  Options options_;
  int64_t longest_token_ = TokenList::kUnknown;  // in bytes
};

// Makes symbols of single characters, and finds a token or character by its spelling.
class SymbolTable {
 public:
  explicit SymbolTable(const Vocabulary& vocabulary) : next_(static_cast<TokenId>(vocabulary.size())) {
    for (TokenId id = 0; id < vocabulary.size(); ++id) {
      const TokenType type = vocabulary.type(id);
      const std::string_view name = vocabulary.Name(id);
      if (type != TokenType::kNormal && type != TokenType::kUserDefined) continue;
      if (name.empty() || ToValidUtf8(name) != name) continue;
      if (!by_name_.emplace(name, id).second) continue;
      const CodePoint c = FirstCodePoint(name);
      if (c.length == name.size()) characters_.emplace(c.value, id);
    }
  }

  /// The symbol of a token or single character, or -1; with `make`, a character gets a symbol if it has none.
  TokenId Find(std::string_view name, bool make) {
    if (const auto found = by_name_.find(name); found != by_name_.end()) return found->second;
    const CodePoint c = FirstCodePoint(name);
    if (c.length != name.size()) return -1;
    if (const auto found = characters_.find(c.value); found != characters_.end()) return found->second;
    if (!make) return -1;
    characters_.emplace(c.value, next_);
    return next_++;
  }

  const std::unordered_map<std::string_view, TokenId>& tokens() const { return by_name_; }
  Characters TakeCharacters() { return std::move(characters_); }

 private:
  std::unordered_map<std::string_view, TokenId> by_name_;
  Characters characters_;
  TokenId next_;
};

// Two neighbours merge where together they are a token; the better its score, the sooner.
Result<MergeTable> MergesByScore(const Vocabulary& vocabulary, const std::vector<float>& scores, SymbolTable* symbols) {
  if (scores.size() != static_cast<size_t>(vocabulary.size())) {
    return InvalidArgument("tokenizer: " + std::to_string(scores.size()) + " scores for " +
                           std::to_string(vocabulary.size()) + " tokens");
  }
  std::vector<float> order;
  for (const float score : scores) {
    if (std::isnan(score)) return InvalidArgument("tokenizer: a score is not a number");
    order.push_back(score);
  }
  std::ranges::sort(order, std::greater<>());
  order.erase(std::unique(order.begin(), order.end()), order.end());
  MergeTable table(static_cast<size_t>(vocabulary.size()) * 4);
  for (TokenId id = 0; id < vocabulary.size(); ++id) {
    const std::string_view name = vocabulary.Name(id);
    const auto listed = symbols->tokens().find(name);
    if (listed == symbols->tokens().end() || listed->second != id) continue;
    const auto rank =
        std::ranges::lower_bound(order, scores[static_cast<size_t>(id)], std::greater<>()) - order.begin();
    for (size_t cut = FirstCodePoint(name).length; cut < name.size(); cut += FirstCodePoint(name.substr(cut)).length) {
      const TokenId left = symbols->Find(name.substr(0, cut), false), right = symbols->Find(name.substr(cut), false);
      const bool left_character = cut == FirstCodePoint(name).length;
      const bool right_character = FirstCodePoint(name.substr(cut)).length == name.size() - cut;
      if ((left < 0 && !left_character) || (right < 0 && !right_character)) continue;
      table.Add(symbols->Find(name.substr(0, cut), true), symbols->Find(name.substr(cut), true),
                {static_cast<uint32_t>(rank), id}, LastCodePoint(name.substr(0, cut)).value,
                FirstCodePoint(name.substr(cut)).value);
    }
  }
  return table;
}

}  // namespace

Result<std::unique_ptr<Tokenizer>> MakeSentencePieceBpe(Vocabulary vocabulary, const TokenizerData& data) {
  SymbolTable symbols(vocabulary);
  auto merges =
      data.merges.empty() ? MergesByScore(vocabulary, data.scores, &symbols) : MakeMergeTable(vocabulary, data);
  if (!merges.ok()) return merges.status();
  const Options options{data.normalise_nfc, data.space_prefix, data.unknown.value_or(-1)};
  return std::unique_ptr<Tokenizer>(
      std::make_unique<SentencePieceBpe>(std::move(vocabulary), std::move(*merges), symbols.TakeCharacters(), options));
}

}  // namespace ringside
