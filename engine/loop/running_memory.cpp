#include "engine/loop/running_memory.h"

#include <algorithm>
#include <tuple>
#include <utility>

#include "base/check.h"

namespace ringside {
namespace {

// Tokens of memory that a running turn gets ahead of need.
constexpr int64_t kAheadTokens = 64;

}  // namespace

void RunningMemory::Grow() {
  for (RunningTurn* branch : slots_.OverwrittenBranches()) eviction_.PreemptForMemory(*branch);
  std::vector<RunningTurn*> turns;
  for (const auto& turn : slots_.running()) turns.push_back(turn.get());
  // Sort a branch directly after its history, so that it is preempted first: it depends on the history's memory, too.
  std::ranges::sort(turns, {}, [this](const RunningTurn* turn) {
    const RunningTurn* history = slots_.HistoryOf(*turn);
    const RunningTurn* first = history == nullptr ? turn : history;
    return std::tuple(first->clock().submitted_ns(), first->id(), history != nullptr, turn->clock().submitted_ns(),
                      turn->id());
  });
  for (size_t i = 0; i < turns.size(); ++i) {
    while (turns.size() > i && !GrowTurn(*turns[i])) {
      if (!Reclaim(*turns[i], &turns)) break;
    }
  }
}

bool RunningMemory::GrowTurn(RunningTurn& turn) {
  KvPool& pool = slots_.pool();
  if (slots_.LackingBytes(turn) > pool.free_bytes()) return false;
  const int64_t ahead = pool.BytesFor(turn.request().window, turn.request().window.pinned + kAheadTokens);
  Status given = AsPermanent(slots_.Grow(turn, 1, ahead));
  if (!given.ok()) turn.Finish(FinishReason::kError, std::move(given));
  return true;
}

bool RunningMemory::Reclaim(const RunningTurn& turn, std::vector<RunningTurn*>* running) {
  const KvPool& pool = slots_.pool();
  const int64_t wanted = slots_.LackingBytes(turn);
  if (wanted <= pool.free_bytes() + slots_.EvictingBytes()) return false;
  Slot* next = slots_.PickIdleVictim(nullptr, /*waiting=*/false);
  if (next == nullptr) next = slots_.PickIdleVictim(nullptr, /*waiting=*/true);
  if (next != nullptr) return eviction_.Evict(*next, /*insists=*/false);
  // Skip turns with beams: they have all the memory they will need, and they end.
  auto last = running->end();
  while ((*--last)->branches() > 0) CHECK(last != running->begin());
  eviction_.PreemptForMemory(**last);
  running->erase(last);
  return true;
}

bool RunningMemory::GrowAhead() {
  return slots_.OverwrittenBranches().empty() &&
         std::ranges::all_of(slots_.running(), [&](const auto& turn) { return GrowTurn(*turn) && !turn->finished(); });
}

}  // namespace ringside
