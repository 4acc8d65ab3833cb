#include "engine/grammar/grammar.h"

#include <algorithm>

#include "base/check.h"
#include "base/limits.h"

namespace ringside {
namespace {

constexpr size_t kManyPlaces = 16;  // of a state: one walk over the whole vocabulary costs less
constexpr size_t kDearWalk = 64;    // nodes: above it a mask is kept
constexpr int kWideMoves = 64;      // bytes: a place that takes so many takes much of the vocabulary
constexpr size_t kMostWarmPlaces = 32;
constexpr int64_t kWorkPerByte = 256;

void SetBit(std::span<uint32_t> mask, TokenId id) { mask[static_cast<size_t>(id) / 32] |= 1u << (id % 32); }

// Of text that is read again, too: a grammar must be read at a bounded cost a byte.
int64_t WorkFor(std::string_view text) {
  return limits::kMaxGrammarWorkPerToken + kWorkPerByte * static_cast<int64_t>(text.size());
}

Status TooMuchWork() {
  return InvalidArgument("The grammar can be read in too many ways: what may come next takes too long to find.", "",
                         "invalid_value");
}

}  // namespace

Result<std::shared_ptr<const Grammar>> Grammar::Make(const GrammarSource& source,
                                                     std::shared_ptr<const GrammarVocabulary> vocabulary) {
  ASSIGN_OR_RETURN(TransitionNetwork network, TransitionNetwork::Compile(source));
  std::shared_ptr<Grammar> grammar(new Grammar(std::move(network), std::move(vocabulary)));
  grammar->Warm();
  return std::shared_ptr<const Grammar>(std::move(grammar));
}

Grammar::Grammar(TransitionNetwork network, std::shared_ptr<const GrammarVocabulary> vocabulary)
    : network_(std::move(network)), vocabulary_(std::move(vocabulary)), table_(network_) {}

void Grammar::Warm() {
  std::lock_guard lock(mutex_);
  for (StateId s = 0; s < network_.states().size() && place_masks_.size() < kMostWarmPlaces; ++s) {
    int taken = 0;
    for (const ByteMove& move : network_.states()[s].moves) taken += move.last - move.first + 1;
    table_.SetWork(limits::kMaxGrammarWorkPerToken);
    if (taken >= kWideMoves) MaskOf(s);
  }
}

size_t Grammar::bytes() const {
  std::lock_guard lock(mutex_);
  return network_.bytes() + table_.bytes() + place_bytes_ + mask_bytes_;
}

// Null if it takes too much work.
const Grammar::PlaceMask* Grammar::MaskOf(StateId place) const {
  const uint64_t kind = network_.kind(place);
  if (const auto known = place_masks_.find(kind); known != place_masks_.end()) return &known->second;
  const TokenTrie& trie = vocabulary_->tokens;
  std::vector<ParseState> path(trie.depth() + 1);
  std::vector<bool> left(trie.depth() + 1);  // a text that ends on the way there leaves the rule
  path[0] = table_.Alone(place);
  PlaceMask mask;
  std::vector<TokenTrie::Entry> open;
  for (size_t i = 0; i < trie.size();) {
    const TokenTrie::Node& node = trie.nodes()[i];
    const bool beyond = node.depth >= TransitionNetwork::kKindBytes;  // others of its kind may differ there
    const ParseState next = beyond ? kDeadParse : table_.Next(path[node.depth], node.byte);
    if (next == kDeadParse) {
      if (beyond || left[node.depth]) {
        for (const TokenId id : trie.TokensBelow(i)) open.emplace_back(vocabulary_->tokenizer.TokenBytes(id), id);
      }
      i = node.end;
      continue;
    }
    path[node.depth + 1u] = next;
    left[node.depth + 1u] = left[node.depth] || table_.leaves(next);
    const std::span<const TokenId> tokens = trie.TokensAt(i);
    mask.ids.insert(mask.ids.end(), tokens.begin(), tokens.end());
    ++i;
  }
  if (table_.gave_up()) return nullptr;
  mask.open = TokenTrie(std::move(open));
  const size_t words = (static_cast<size_t>(vocabulary_->tokenizer.vocab_size()) + 31) / 32;
  if (mask.ids.size() > words) {
    mask.bits.resize(words);
    for (const TokenId id : mask.ids) SetBit(mask.bits, id);
    mask.ids.clear();
  }
  mask.ids.shrink_to_fit();
  place_bytes_ += mask.bytes();
  return &place_masks_.emplace(kind, std::move(mask)).first->second;
}

// Returns the number of nodes that it looked at.
size_t Grammar::Walk(const TokenTrie& trie, ParseState from, std::span<uint32_t> mask) const {
  std::vector<ParseState> path(trie.depth() + 1);
  path[0] = from;
  size_t looked = 0;
  for (size_t i = 0; i < trie.size(); ++looked) {
    const TokenTrie::Node& node = trie.nodes()[i];
    const ParseState next = table_.Next(path[node.depth], node.byte);
    if (next == kDeadParse) {
      i = node.end;
      continue;
    }
    path[node.depth + 1u] = next;
    for (const TokenId id : trie.TokensAt(i)) SetBit(mask, id);
    ++i;
  }
  return looked;
}

Status Grammar::FillMask(ParseState state, bool first, std::span<uint32_t> mask) const {
  CHECK_GE(mask.size() * 32, static_cast<size_t>(vocabulary_->tokenizer.vocab_size()));
  std::ranges::fill(mask, 0);
  const bool strips = first && vocabulary_->strips_first;
  if (const auto known = masks_.find(state); known != masks_.end() && !strips) {
    std::ranges::copy(known->second, mask.begin());
    return Status::Ok();
  }
  table_.SetWork(limits::kMaxGrammarWorkPerToken);
  size_t looked = 0;
  if (strips || table_.places(state).size() > kManyPlaces) {
    looked = Walk(strips ? vocabulary_->first_tokens : vocabulary_->tokens, state, mask);
  } else {
    const std::span<const ParseTable::Place> span = table_.places(state);  // which moves as the table grows
    const std::vector<ParseTable::Place> places(span.begin(), span.end());
    for (const ParseTable::Place& place : places) {
      const PlaceMask* own = MaskOf(place.state);
      if (own == nullptr) return TooMuchWork();
      for (size_t i = 0; i < own->bits.size(); ++i) mask[i] |= own->bits[i];
      for (const TokenId id : own->ids) SetBit(mask, id);
      looked += Walk(own->open, state, mask);
    }
  }
  if (table_.gave_up()) return TooMuchWork();
  if (looked <= kDearWalk || strips) return Status::Ok();
  masks_.emplace(state, std::vector<uint32_t>(mask.begin(), mask.end()));
  mask_bytes_ += 64 + mask.size() * 4;
  return Status::Ok();
}

void Grammar::Forget() const {
  const auto most = static_cast<size_t>(limits::kMaxGrammarTableBytes);
  if (table_.bytes() + mask_bytes_ + place_bytes_ <= most) return;
  table_.Clear();
  masks_.clear();
  mask_bytes_ = 0;
  if (place_bytes_ > most / 2) {
    place_masks_.clear();
    place_bytes_ = 0;
  }
  ++generation_;
}

GrammarMatcher::GrammarMatcher(std::shared_ptr<const Grammar> grammar) : grammar_(std::move(grammar)) {
  std::lock_guard lock(grammar_->mutex_);
  state_ = grammar_->table_.start();
  generation_ = grammar_->generation_;
  Note();
}

void GrammarMatcher::Note() {
  may_end_ = grammar_->table_.ends(state_);
  may_go_on_ = !grammar_->table_.places(state_).empty();
}

Status GrammarMatcher::Recall() {
  grammar_->Forget();
  if (generation_ == grammar_->generation_) return Status::Ok();
  generation_ = grammar_->generation_;
  ParseTable& table = grammar_->table_;
  state_ = table.start();
  table.SetWork(WorkFor(text_));
  for (const char c : text_) {
    state_ = table.Next(state_, static_cast<uint8_t>(c));
    // Otherwise what is forgotten would have to be found again at once, for every token.
    if (table.bytes() > static_cast<size_t>(limits::kMaxGrammarTableBytes) / 4) {
      return InvalidArgument("The answer is nested too deeply to go on.", "", "invalid_value");
    }
  }
  if (table.gave_up()) return TooMuchWork();
  return Status::Ok();
}

Status GrammarMatcher::Advance(std::string_view bytes) {
  ParseTable& table = grammar_->table_;
  ParseState at = state_;
  table.SetWork(WorkFor(bytes));
  for (const char c : bytes) {
    at = table.Next(at, static_cast<uint8_t>(c));
    if (table.gave_up()) return TooMuchWork();
    if (at == kDeadParse) return InvalidArgument("No text of this format begins like that.");
  }
  state_ = at;
  text_ += bytes;
  Note();
  return Status::Ok();
}

Status GrammarMatcher::Append(std::string_view text) {
  std::lock_guard lock(grammar_->mutex_);
  RETURN_IF_ERROR(Recall());
  RETURN_IF_ERROR(Advance(text));
  first_ = false;
  return Status::Ok();
}

Status GrammarMatcher::Take(TokenId id) {
  std::lock_guard lock(grammar_->mutex_);
  RETURN_IF_ERROR(Recall());
  std::string_view bytes = grammar_->vocabulary_->tokenizer.TokenBytes(id);
  if (bytes.empty()) return InvalidArgument("The token has no text.");
  if (first_ && grammar_->vocabulary_->strips_first && bytes.front() == ' ') bytes.remove_prefix(1);
  RETURN_IF_ERROR(Advance(bytes));
  first_ = false;
  return Status::Ok();
}

Status GrammarMatcher::FillMask(std::span<uint32_t> mask) {
  std::lock_guard lock(grammar_->mutex_);
  RETURN_IF_ERROR(Recall());
  return grammar_->FillMask(state_, first_, mask);
}

}  // namespace ringside
