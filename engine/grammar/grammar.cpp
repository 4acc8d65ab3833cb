#include "engine/grammar/grammar.h"

#include <algorithm>
#include <functional>
#include <utility>

#include "base/check.h"
#include "base/limits.h"

namespace ringside {
namespace {

constexpr size_t kManyPlaces = 16;  // places of a state; above it, one walk over the whole vocabulary is cheaper
constexpr int64_t kCheapMask = 8;   // work; masks above it are cached
constexpr int kWideMoves = 64;      // bytes; a place that accepts more accepts a large part of the vocabulary
constexpr size_t kMaxWarmPlaces = 32;
constexpr int64_t kWarmWork = 8 * limits::kMaxGrammarWorkAtOnce;
constexpr int64_t kWorkPerByte = 256;    // budget per byte of replayed text
constexpr size_t kNodesPerWork = 8;      // trie nodes per unit of work; a node is one look-up
constexpr size_t kAppendedAtOnce = 256;  // bytes per lock hold

void SetBit(std::span<uint32_t> mask, TokenId id) { mask[static_cast<size_t>(id) / 32] |= 1u << (id % 32); }

Status TooMuchWork() {
  return InvalidArgument("The grammar is too ambiguous: finding the next tokens takes too long.", "", "invalid_value");
}

}  // namespace

Result<std::shared_ptr<const Grammar>> Grammar::Make(const GrammarSource& source,
                                                     std::shared_ptr<const GrammarVocabulary> vocabulary,
                                                     std::shared_ptr<GrammarMemory> memory) {
  ASSIGN_OR_RETURN(TransitionNetwork network, TransitionNetwork::Compile(source));
  std::shared_ptr<Grammar> grammar(new Grammar(std::move(network), std::move(vocabulary), std::move(memory)));
  grammar->Warm();
  return std::shared_ptr<const Grammar>(std::move(grammar));
}

Grammar::Grammar(TransitionNetwork network, std::shared_ptr<const GrammarVocabulary> vocabulary,
                 std::shared_ptr<GrammarMemory> memory)
    : network_(std::move(network)), vocabulary_(std::move(vocabulary)), table_(network_), counted_(std::move(memory)) {
  counted_.Set(static_cast<int64_t>(BytesLocked()));
}

void Grammar::Warm() {
  std::lock_guard lock(mutex_);
  std::vector<uint32_t> mask(static_cast<size_t>(vocabulary_->tokenizer.vocab_size() + 31) / 32);
  table_.SetWork(limits::kMaxGrammarWorkAtOnce);
  if (!FillMask(table_.start(), /*first=*/false, mask).ok()) return;  // the first answer reports the error
  int64_t work = kWarmWork;
  for (StateId s = 0; s < network_.states() && place_masks_.size() < kMaxWarmPlaces && work > 0; ++s) {
    int taken = 0;
    for (const ByteMove& move : network_.moves(s)) taken += move.last - move.first + 1;
    if (taken < kWideMoves) continue;
    table_.SetWork(std::min(work, limits::kMaxGrammarWorkAtOnce));
    MaskOf(s);
    work -= limits::kMaxGrammarWorkAtOnce - table_.work_left();
  }
  counted_.Set(static_cast<int64_t>(BytesLocked()));
}

size_t Grammar::BytesLocked() const {
  return network_.bytes() + table_.bytes() + place_bytes_ + mask_bytes_ + positions_.capacity() * sizeof(Position);
}

size_t Grammar::bytes() const {
  std::lock_guard lock(mutex_);
  return BytesLocked();
}

// Null if it takes too much work.
const Grammar::PlaceMask* Grammar::MaskOf(StateId place) const {
  const uint64_t kind = network_.kind(place);
  if (const auto known = place_masks_.find(kind); known != place_masks_.end()) return &known->second;
  const TokenTrie& trie = vocabulary_->tokens;
  std::vector<ParseState> path(trie.depth() + 1);
  std::vector<bool> left(trie.depth() + 1);  // a text that ends on the path leaves the rule
  path[0] = table_.Alone(place);
  PlaceMask mask;
  std::vector<TokenTrie::Entry> open;
  for (size_t i = 0, looked = 0; i < trie.size(); ++looked) {
    if (looked % kNodesPerWork == 0) table_.Spend(1);
    if (table_.gave_up()) return nullptr;
    const TokenTrie::Node& node = trie.nodes()[i];
    const bool beyond = node.depth >= TransitionNetwork::kKindBytes;  // other places of the same kind may differ there
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

void Grammar::Walk(const TokenTrie& trie, ParseState from, std::span<uint32_t> mask) const {
  std::vector<ParseState> path(trie.depth() + 1);
  path[0] = from;
  for (size_t i = 0, looked = 0; i < trie.size() && !table_.gave_up(); ++looked) {
    if (looked % kNodesPerWork == 0) table_.Spend(1);
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
}

Status Grammar::FillMask(ParseState state, bool first, std::span<uint32_t> mask) const {
  CHECK_GE(mask.size() * 32, static_cast<size_t>(vocabulary_->tokenizer.vocab_size()));
  std::ranges::fill(mask, 0);
  const bool strips = first && vocabulary_->strips_first;
  if (const auto known = masks_.find(state); known != masks_.end() && !strips) {
    std::ranges::copy(known->second, mask.begin());
    return Status::Ok();
  }
  const int64_t work = table_.work_left();
  if (strips || table_.places(state).size() > kManyPlaces) {
    Walk(strips ? vocabulary_->first_tokens : vocabulary_->tokens, state, mask);
  } else {
    const std::span<const ParseTable::Place> span = table_.places(state);  // do not keep: the table reallocates
    const std::vector<ParseTable::Place> places(span.begin(), span.end());
    for (const ParseTable::Place& place : places) {
      const PlaceMask* own = MaskOf(place.state);
      if (own == nullptr) return TooMuchWork();
      for (size_t i = 0; i < own->bits.size(); ++i) mask[i] |= own->bits[i];
      for (const TokenId id : own->ids) SetBit(mask, id);
      Walk(own->open, state, mask);
    }
  }
  if (table_.gave_up()) return TooMuchWork();
  if (work - table_.work_left() <= kCheapMask || strips) return Status::Ok();
  masks_.emplace(state, std::vector<uint32_t>(mask.begin(), mask.end()));
  mask_bytes_ += 64 + mask.size() * 4;
  return Status::Ok();
}

size_t Grammar::AddPosition(ParseState state) const {
  const auto unused = std::ranges::find(positions_, false, &Position::used);
  const auto place = static_cast<size_t>(unused - positions_.begin());
  if (unused == positions_.end()) positions_.emplace_back();
  positions_[place] = {state, true};
  return place;
}

void Grammar::Forget() const {
  counted_.Set(static_cast<int64_t>(BytesLocked()));
  const auto most = static_cast<size_t>(counted_.TableBytes());
  if (table_.bytes() + mask_bytes_ + place_bytes_ <= most) return;
  const auto keep = [this] {
    std::vector<ParseState*> states;
    for (Position& position : positions_) {
      if (position.used) states.push_back(&position.state);
    }
    table_.KeepOnly(states);
  };
  keep();
  if (table_.bytes() > most / 2) {
    EndLargestAnswers(most / 2);
    keep();
  }
  masks_.clear();
  mask_bytes_ = 0;
  if (place_bytes_ > most / 2) {
    place_masks_.clear();
    place_bytes_ = 0;
  }
  counted_.Set(static_cast<int64_t>(BytesLocked()));
}

// Otherwise every token would compact the table again.
void Grammar::EndLargestAnswers(size_t most) const {
  std::vector<std::pair<size_t, Position*>> sizes;
  size_t sum = 0;
  for (Position& position : positions_) {
    if (!position.used || position.too_deep) continue;
    sizes.emplace_back(table_.BytesOf(position.state), &position);
    sum += sizes.back().first;
  }
  std::ranges::sort(sizes, std::greater());
  for (const auto& [bytes, position] : sizes) {
    if (sum <= most) return;
    sum -= bytes;
    position->state = kDeadParse;
    position->too_deep = true;
  }
}

GrammarMatcher::GrammarMatcher(std::shared_ptr<const Grammar> grammar)
    : grammar_(std::move(grammar)), work_left_(limits::kMaxGrammarWorkAtOnce) {
  std::lock_guard lock(grammar_->mutex_);
  position_ = grammar_->AddPosition(grammar_->table_.start());
  Note();
}

GrammarMatcher::GrammarMatcher(const GrammarMatcher& other)
    : grammar_(other.grammar_),
      work_left_(other.work_left_),
      first_(other.first_),
      may_end_(other.may_end_),
      may_continue_(other.may_continue_) {
  std::lock_guard lock(grammar_->mutex_);
  const Grammar::Position& same = grammar_->positions_[other.position_];
  const bool too_deep = same.too_deep;
  position_ = grammar_->AddPosition(same.state);
  grammar_->positions_[position_].too_deep = too_deep;
}

GrammarMatcher::~GrammarMatcher() {
  std::lock_guard lock(grammar_->mutex_);
  grammar_->positions_[position_] = {};
}

void GrammarMatcher::Note() {
  const ParseState state = grammar_->positions_[position_].state;
  may_end_ = grammar_->table_.ends(state);
  may_continue_ = !grammar_->table_.places(state).empty();
}

Status GrammarMatcher::Begin() {
  grammar_->Forget();
  if (grammar_->positions_[position_].too_deep) {
    return InvalidArgument("The answer is nested too deeply to continue.", "", "invalid_value");
  }
  grammar_->table_.SetWork(work_left_);
  return Status::Ok();
}

Status GrammarMatcher::End() {
  work_left_ = grammar_->table_.work_left();
  return grammar_->table_.gave_up() ? TooMuchWork() : Status::Ok();
}

Status GrammarMatcher::Advance(std::string_view bytes) {
  ParseTable& table = grammar_->table_;
  ParseState at = grammar_->positions_[position_].state;
  for (const char c : bytes) {
    at = table.Next(at, static_cast<uint8_t>(c));
    if (table.gave_up()) break;
    if (at == kDeadParse) return InvalidArgument("No text of this format starts with this answer.");
  }
  RETURN_IF_ERROR(End());
  grammar_->positions_[position_].state = at;
  Note();
  return Status::Ok();
}

// One lock hold per chunk, so that other answers proceed in between.
Status GrammarMatcher::Append(std::string_view text) {
  GrammarMatcher ahead(*this);
  int64_t granted = limits::kMaxGrammarWorkToResume;
  for (std::string_view rest = text; !rest.empty(); rest.remove_prefix(std::min(rest.size(), kAppendedAtOnce))) {
    std::lock_guard lock(grammar_->mutex_);
    const std::string_view part = rest.substr(0, kAppendedAtOnce);
    const int64_t more = std::min(granted, kWorkPerByte * std::ssize(part));
    granted -= more;
    ahead.work_left_ += more;
    RETURN_IF_ERROR(ahead.Begin());
    RETURN_IF_ERROR(ahead.Advance(part));
  }
  std::lock_guard lock(grammar_->mutex_);
  std::swap(position_, ahead.position_);
  work_left_ = std::min(ahead.work_left_, limits::kMaxGrammarWorkAtOnce);
  first_ = false;
  Note();
  return Status::Ok();
}

Status GrammarMatcher::Take(TokenId id) {
  std::lock_guard lock(grammar_->mutex_);
  std::string_view bytes = grammar_->vocabulary_->tokenizer.TokenBytes(id);
  if (bytes.empty()) return InvalidArgument("The token has no text.");
  if (first_ && grammar_->vocabulary_->strips_first && bytes.front() == ' ') bytes.remove_prefix(1);
  RETURN_IF_ERROR(Begin());
  RETURN_IF_ERROR(Advance(bytes));
  work_left_ = std::min(work_left_ + limits::kMaxGrammarWorkPerToken, limits::kMaxGrammarWorkAtOnce);
  first_ = false;
  return Status::Ok();
}

Status GrammarMatcher::FillMask(std::span<uint32_t> mask) {
  std::lock_guard lock(grammar_->mutex_);
  RETURN_IF_ERROR(Begin());
  Status filled = grammar_->FillMask(grammar_->positions_[position_].state, first_, mask);
  RETURN_IF_ERROR(End());
  return filled;
}

}  // namespace ringside
