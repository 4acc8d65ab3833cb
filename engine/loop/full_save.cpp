#include "engine/loop/full_save.h"

#include <utility>

namespace ringside {

Slot* FullSave::NextToSave(const FullSaveState& saving) const {
  Slot* next = nullptr;
  const auto used = [](const Slot* slot) { return std::pair(slot->turn != nullptr, slot->idle_since_ns); };
  for (Slot* slot : slots_.cached()) {
    if (slot->owner.empty() || saving.begun.contains(slot->id)) continue;
    if (next == nullptr || used(slot) > used(next)) next = slot;
  }
  return next;
}

void FullSave::CountUnsaved(const FullSaveState& saving) {
  counts_.unsaved = counts_.unsaved_bytes = 0;
  for (const Slot* slot : slots_.cached()) {
    if (slot->owner.empty() || saving.begun.contains(slot->id)) continue;
    ++counts_.unsaved;
    counts_.unsaved_bytes += slots_.RowsBytes(*slot->sequence->cache());
  }
}

void FullSave::Continue(SaveAllMessage message) {
  constexpr int64_t kMaxConcurrentWrites = 2 * TieredStore::kWriters;  // keeps every writer busy
  const std::shared_ptr<FullSaveState> saving = std::move(message.saving);
  if (storage_.tiers == nullptr) return NotifyDone(saving->done, Status::Ok());
  eviction_.FinishCopies(/*wait=*/true);
  if (message.written) --saving->writing;
  const auto send = [inbox = inbox_, saving](SaveAllMessage next) {
    if (inbox->PushUrgent(std::move(next)) || saving->notified.exchange(true)) return;
    NotifyDone(saving->done, Unavailable("the engine has stopped"));
  };
  Slot* const next = NextToSave(*saving);
  CountUnsaved(*saving);
  if (next == nullptr) {
    if (saving->writing > 0 || std::exchange(saving->flushing, true)) return;
    // Flush the remaining objects in memory last.
    storage_.tiers->Flush([saving](const Status& status) {
      if (!saving->notified.exchange(true)) NotifyDone(saving->done, status);
    });
  } else if (saving->writing == 0 || (saving->writing < kMaxConcurrentWrites &&
                                      storage_.tiers->saving_room() >= slots_.RowsBytes(*next->sequence->cache()))) {
    sequences_.Save(next->owner, *next->sequence, SequenceStorage::Effort::kAlways);
    sequences_.CollectSaved(/*wait=*/true);
    saving->begun.insert(next->id);
    ++saving->writing;
    storage_.tiers->SaveToDisk(next->owner, [saving, send](const Status&) { send({saving, /*written=*/true}); });
    send({saving});  // the next one after a step
  }
}

}  // namespace ringside
