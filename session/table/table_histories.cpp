// The table's stateless requests: each carries its whole history, and goes on with, or forks, the timeline of the same
// owner that shares most of it.
#include <algorithm>
#include <limits>

#include "base/limits.h"
#include "base/log.h"
#include "session/history_text.h"
#include "session/ids.h"
#include "session/table/table_state.h"

namespace ringside {
namespace {

// A fork copies the whole cache of the other timeline: not for less than these bytes of text, nor for less than this
// share of it.
constexpr size_t kWorthAFork = 256, kLeastShare = 8;

}  // namespace

std::shared_ptr<Session> SessionTable::State::NewHistory(const Caller& caller, bool in_memory) {
  if (!in_memory) return NewChain(caller, {}, "");
  return std::make_shared<Session>(context, MakeId(TieredStore::kMemoryOnly), caller.principal, Metadata{},
                                   WindowOverrides{});
}

Status SessionTable::State::ReadPrompt(TurnSpec* spec) const {
  const Tokenizer& tokenizer = context->codec.tokenizer;
  std::vector<TokenId>& tokens = spec->raw->tokens;
  for (const TokenId token : tokens) {
    if (token < 0 || token >= tokenizer.vocab_size()) {
      return InvalidArgument("No token has the id " + std::to_string(token) + ".", "input", "invalid_value");
    }
  }
  if (tokens.empty()) {
    const TextPiece piece{spec->raw->text, /*markup=*/true};
    const int64_t most = spec->raw->cut ? std::numeric_limits<int64_t>::max() : context->options.session_len;
    auto ids = tokenizer.Encode({&piece, 1}, most);
    if (!ids) {
      return InvalidArgument("The prompt has more than " + std::to_string(most) + " tokens, the limit.", "input",
                             "context_length_exceeded");
    }
    if (ids->empty()) return InvalidArgument("The prompt is empty.", "input", "invalid_value");
    if (spec->raw->begins) BeginText(context->options.text_begin, &*ids);
    tokens = *std::move(ids);
  }
  const auto window = static_cast<size_t>(context->options.memory_len);
  if (spec->raw->cut) tokens.resize(std::min(tokens.size(), window));
  return Status::Ok();
}

SessionTable::State::Target SessionTable::State::FindHistory(const Caller& caller, TurnSpec* spec) {
  IndexHistories();
  Target target;
  target.in_memory = !spec->store;
  const auto begin_anew = [&] {
    target.session = NewHistory(caller, target.in_memory);
    target.fresh = true;
    return target;
  };
  if (spec->raw && (spec->raw->scored || spec->raw->embedded)) return begin_anew();  // all of it is computed
  const HistoryIndex::Matches found = histories.Find(caller.principal, HistoryText(*spec));
  const auto compare = [&](const std::string& key) -> std::optional<Session::HistoryMatch> {
    const auto session = Get(key, caller.principal);
    if (!session.ok()) return std::nullopt;  // gone since, or damaged
    target.parent = *session;
    return (*session)->MatchHistory(*spec);
  };
  if (found.whole && found.longest->shared < found.whole->shared + kWorthAFork) {
    const bool same_place = found.whole->session.starts_with(TieredStore::kMemoryOnly) == target.in_memory;
    const auto match = same_place ? compare(found.whole->session) : std::nullopt;
    if (match && match->continues && !match->head.empty()) {
      target.session = target.parent;
      target.head = match->head;
      target.parent_items = match->items;
      spec->input.erase(spec->input.begin(), spec->input.begin() + static_cast<ptrdiff_t>(match->items));
      return target;
    }
  }
  if (found.longest && found.longest->shared >= kWorthAFork &&
      found.longest->shared >= found.longest->size / kLeastShare) {
    if (auto match = compare(found.longest->session)) {
      target.parent_items = match->items;
      Fork(caller, std::move(match->timeline), &target);
      spec->input.erase(spec->input.begin(), spec->input.begin() + static_cast<ptrdiff_t>(match->items));
      return target;
    }
  }
  return begin_anew();
}

void SessionTable::State::IndexHistory(const std::shared_ptr<Session>& session) {
  const std::string text = session->History();
  if (!text.empty()) {
    return GiveUp(histories.Set(session->owner(), session->key(), text, context->clock.MonotonicNs()));
  }
  histories.Erase(session->key());  // its first turn has failed
  GiveUp({session->key()});
}

void SessionTable::State::IndexHistories() {
  for (const std::weak_ptr<Session>& changed : context->histories->Take()) {
    const std::shared_ptr<Session> session = changed.lock();
    if (session == nullptr) continue;
    {
      std::lock_guard lock(mutex);
      if (!sessions.contains(session->key())) continue;  // deleted in the meantime
    }
    IndexHistory(session);
  }
}

// What runs is found again when it ends; what is stored belongs to its responses.
void SessionTable::State::GiveUp(const std::vector<std::string>& keys) {
  for (const std::string& key : keys) {
    if (!key.starts_with(TieredStore::kMemoryOnly)) continue;
    {
      std::lock_guard lock(mutex);
      const auto at = sessions.find(key);
      if (at == sessions.end() || !at->second.session->idle()) continue;
    }
    DeleteLater(key);
  }
}

void SessionTable::State::GiveUpIdleHistories() {
  IndexHistories();
  const int64_t before_ns = context->clock.MonotonicNs() - limits::kHistoryIdleSeconds * 1'000'000'000;
  while (const auto oldest = histories.Oldest(before_ns)) {
    histories.Erase(*oldest);
    GiveUp({*oldest});
  }
}

void SessionTable::State::GiveUpHistories(const std::atomic<int64_t>& bytes, int64_t budget_bytes,
                                          const std::optional<std::string>& owner) {
  while (bytes > budget_bytes) {
    const auto oldest = owner ? histories.OldestOf(*owner) : histories.Oldest();
    if (!oldest) return;
    histories.Erase(*oldest);
    GiveUp({*oldest});
  }
}

}  // namespace ringside
