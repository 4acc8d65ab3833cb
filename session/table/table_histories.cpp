// Stateless requests: each carries its whole history and continues, or forks, the owner's timeline with the longest
// common prefix.
#include <algorithm>
#include <limits>

#include "base/limits.h"
#include "base/log.h"
#include "base/refusals/context_overflow.h"
#include "session/history_text.h"
#include "session/ids.h"
#include "session/table/table_state.h"
#include "session/turn/turn_input.h"

namespace ringside {
namespace {

// A fork copies the whole cache of the other timeline: not worth it for a shorter common prefix than this, in bytes of
// text or as a share of the text.
constexpr size_t kWorthAFork = 256, kLeastShare = 8;

// Chains with equal beginnings that are found after a restart.
constexpr int kChainsPerPrefix = 8;

std::string ChainName(const std::string& owner, const std::string& beginning, int number) {
  return HashedId("chain_", "history\n" + owner + '\n' + std::to_string(number) + '\n' + beginning);
}

}  // namespace

std::string SessionTable::State::ReserveHistoryName(const Caller& caller, Target* target) {
  if (target->beginning.empty() || journal == nullptr) return "";
  const std::string owner = shared ? shared.ChainOwner(caller.principal) : caller.principal;
  for (int number = 0; number < kChainsPerPrefix; ++number) {
    std::string name = ChainName(owner, target->beginning, number);
    if (shared && shared.Has(name, caller.principal)) continue;  // given back
    std::scoped_lock lock(mutex, reserved->mutex);
    if (sessions.contains(name) || reserved->names.contains(name)) continue;
    target->name = ReserveLocked(name);
    return name;
  }
  return "";
}

std::shared_ptr<void> SessionTable::State::ReserveLocked(const std::string& name) {
  const auto at = reserved->names.insert(name);
  return {nullptr, [reserved = reserved, at](void*) {
            std::lock_guard unreserve(reserved->mutex);
            reserved->names.erase(at);
          }};
}

void SessionTable::State::LoadHistories(const Caller& caller, const std::string& beginning) {
  const std::string owner = shared ? shared.ChainOwner(caller.principal) : caller.principal;
  std::vector<std::string> names;
  for (int number = 0; number < kChainsPerPrefix; ++number) {
    std::string name = ChainName(owner, beginning, number);
    if (!histories.stored.Contains(name)) names.push_back(std::move(name));
  }
  if (shared) names = shared.Existing(caller.principal, names);
  for (const std::string& name : names) {
    const auto session = Get(name, caller.principal);
    if (!session.ok()) continue;  // does not exist, or is damaged
    (*session)->FindByHistory();
    IndexHistory(*session);
  }
}

Status ReadPrompt(const SessionContext& model, TurnSpec* spec) {
  const Tokenizer& tokenizer = model.codec.tokenizer;
  std::vector<TokenId>& tokens = spec->raw->tokens;
  for (const TokenId token : tokens) {
    if (token < 0 || token >= tokenizer.vocab_size()) {
      return InvalidArgument("Unknown token id " + std::to_string(token) + ".", "input", "invalid_value");
    }
  }
  if (tokens.empty()) {
    const TextPiece piece{spec->raw->text, /*markup=*/true};
    const int64_t most = spec->raw->cut ? std::numeric_limits<int64_t>::max() : model.options.session_len;
    std::optional<std::vector<TokenId>> ids;
    RETURN_IF_ERROR(TokeniseLong(piece.text.size(), [&] { ids = tokenizer.Encode({&piece, 1}, most); }));
    if (!ids) {
      return ContextOverflow{.limit = most, .tokens = most + 1, .at_least = true, .prompt = true}.ToStatus();
    }
    if (ids->empty()) return InvalidArgument("The prompt is empty.", "input", "invalid_value");
    if (spec->raw->begins) BeginText(model.options.text_begin, &*ids);
    tokens = *std::move(ids);
  }
  const auto window = static_cast<size_t>(model.options.memory_len);
  if (spec->raw->cut) tokens.resize(std::min(tokens.size(), window));
  return Status::Ok();
}

Result<SessionTable::State::Target> SessionTable::State::FindHistory(const Caller& caller, TurnSpec* spec,
                                                                     const std::string& request_key) {
  RETURN_IF_ERROR(CheckWindow(models.Known(spec->window.model)->options, spec->window));
  if (!spec->tools) spec->tools.emplace();  // absent means no tools in a stateless request
  IndexHistories();
  Target target;
  target.in_memory = !spec->store;
  if (spec->store && journal != nullptr) {
    target.beginning = HistoryPrefix(*spec);
    LoadHistories(caller, target.beginning);
  }
  const auto start_new = [&] {
    target.session = NewChain(caller, spec->window, request_key, &target);
    target.fresh = true;
    return target;
  };
  if (spec->raw && (spec->raw->scored || spec->raw->embedded)) return start_new();  // every token is computed
  const std::string text = HistoryText(*spec);
  const std::string& by = spec->timeline_key;
  const auto [longest_here, whole] =
      (target.in_memory ? histories.in_memory : histories.stored).Find(caller.principal, text, by);
  std::optional<HistoryIndex::Match> longest =
      (target.in_memory ? histories.stored : histories.in_memory).Find(caller.principal, text, by).longest;
  if (longest_here && (!longest || longest_here->shared >= longest->shared)) longest = longest_here;
  const auto compare = [&](const std::string& key) -> std::optional<Session::HistoryMatch> {
    const auto session = Get(key, caller.principal);
    if (!session.ok()) return std::nullopt;  // deleted meanwhile, or damaged
    auto match = (*session)->MatchHistory(*spec);
    if (match) target.parent = *session;
    return match;
  };
  if (whole && longest_here->shared < whole->shared + kWorthAFork) {
    const auto match = compare(whole->session);
    if (match && match->continues && !match->head.empty()) {
      target.session = target.parent;
      target.head = match->head;
      target.parent_items = match->items;
      spec->input.erase(spec->input.begin(), spec->input.begin() + static_cast<ptrdiff_t>(match->items));
      return target;
    }
  }
  if (longest && longest->shared >= kWorthAFork && longest->shared >= longest->size / kLeastShare) {
    if (auto match = compare(longest->session)) {
      target.parent_items = match->items;
      Fork(caller, std::move(match->timeline), request_key, &target);
      spec->input.erase(spec->input.begin(), spec->input.begin() + static_cast<ptrdiff_t>(match->items));
      return target;
    }
  }
  return start_new();
}

void SessionTable::State::IndexHistory(const std::shared_ptr<Session>& session) {
  const std::string text = session->History();
  if (!text.empty()) {
    Session::HistoryLabel label = session->LabelOfHistory();
    GiveUp(HistoriesWith(session->key())
               .Set(session->owner(), session->key(), text, context->clock.MonotonicNs(),
                    {.key = std::move(label.key), .continued = label.continued}));
    return;
  }
  HistoriesWith(session->key()).Erase(session->key());  // its first turn failed
  GiveUp({session->key()});
}

void SessionTable::State::IndexHistories() {
  for (const std::weak_ptr<Session>& changed : context->shared->histories.Take()) {
    const std::shared_ptr<Session> session = changed.lock();
    if (session == nullptr) continue;
    {
      std::lock_guard lock(mutex);
      if (!sessions.contains(session->key())) continue;  // deleted meanwhile
    }
    IndexHistory(session);
  }
}

// A running session is indexed again when its turn ends; a stored one belongs to its responses.
size_t SessionTable::State::GiveUp(const std::vector<std::string>& keys) {
  size_t deleted = 0;
  for (const std::string& key : keys) {
    if (!key.starts_with(TieredStore::kMemoryOnly)) continue;
    {
      std::lock_guard lock(mutex);
      const auto at = sessions.find(key);
      if (at == sessions.end() || !at->second.session->idle()) continue;
    }
    DeleteLater(key);
    ++deleted;
  }
  return deleted;
}

void SessionTable::State::EvictIdleHistories() {
  IndexHistories();
  const int64_t before_ns = context->clock.MonotonicNs() - limits::kHistoryIdleSeconds * 1'000'000'000;
  while (const auto oldest = histories.stored.Oldest(before_ns)) histories.stored.Erase(*oldest);
  size_t deleted = 0;
  while (const auto oldest = histories.in_memory.Oldest(before_ns)) {
    histories.in_memory.Erase(*oldest);
    deleted += GiveUp({*oldest});
  }
  if (deleted > 0) {
    LogInfo("{} histories of stateless requests are deleted: unused for {} s", deleted, limits::kHistoryIdleSeconds);
  }
}

void SessionTable::State::EvictHistories(const std::atomic<int64_t>& bytes, int64_t budget_bytes,
                                         const std::optional<std::string>& owner) {
  while (bytes > budget_bytes) {
    const auto first = histories.in_memory.PickEvictionVictim(owner);
    if (!first) return;
    histories.in_memory.Erase(*first);
    GiveUp({*first});
  }
}

}  // namespace ringside
