#include "cache/store/owner_table.h"

#include <iterator>
#include <utility>

#include "base/check.h"

namespace ringside {
namespace {

int64_t MemoryBytes(const Snapshot& snapshot) {
  const SnapshotHeader& header = snapshot.header();
  const size_t lists = header.tokens.size() * sizeof(int32_t) +
                       (header.message_starts.size() + header.boundaries.size()) * sizeof(int64_t);
  return snapshot.chunk_bytes() + static_cast<int64_t>(lists);
}

}  // namespace

bool OwnerTable::Record::IsBlank() const {
  return arrival == Arrival::kNone && disk_work == DiskWork::kNone && !in_slot && !keep_on_disk && saves == 0 &&
         !disk_id && dropped.empty();
}

const OwnerTable::Record* OwnerTable::Find(const std::string& owner) const {
  const auto found = records_.find(owner);
  return found == records_.end() ? nullptr : &found->second;
}

template <class Change>
void OwnerTable::Edit(const std::string& owner, const Change& change) {
  const auto at = records_.try_emplace(owner).first;
  change(at->second);
  if (at->second.IsBlank()) records_.erase(at);
}

void OwnerTable::Advance(Record& record, ArrivalEvent event) {
  const std::optional<Arrival> next = Next(record.arrival, event);
  CHECK(next.has_value());
  record.arrival = *next;
  if (!HasWaiting(*next)) FreeWaiting(record);
  if (!HasFork(*next)) record.fork.reset();
}

void OwnerTable::Advance(const std::string& owner, ArrivalEvent event) {
  Edit(owner, [&](Record& record) { Advance(record, event); });
}

void OwnerTable::Advance(const std::string& owner, DiskEvent event) {
  Edit(owner, [&](Record& record) {
    const std::optional<DiskWork> next = Next(record.disk_work, event);
    CHECK(next.has_value());
    record.disk_work = *next;
  });
}

void OwnerTable::FreeWaiting(Record& record) {
  if (record.waiting == nullptr) return;
  waiting_bytes_ -= record.waiting->bytes;
  waiting_.erase(record.waiting->place);
  record.waiting.reset();
}

Arrival OwnerTable::arrival(const std::string& owner) const {
  const Record* const record = Find(owner);
  return record == nullptr ? Arrival::kNone : record->arrival;
}

DiskWork OwnerTable::disk_work(const std::string& owner) const {
  const Record* const record = Find(owner);
  return record == nullptr ? DiskWork::kNone : record->disk_work;
}

void OwnerTable::Erase(const std::string& owner, bool hide) {
  Advance(owner, ArrivalEvent::kErase);
  if (hide) Advance(owner, DiskEvent::kErase);
}

void OwnerTable::Offer(const std::string& owner, Snapshot snapshot) {
  Edit(owner, [&](Record& record) {
    FreeWaiting(record);
    Advance(record, ArrivalEvent::kOffer);
    const int64_t bytes = MemoryBytes(snapshot);
    record.waiting = std::make_unique<WaitingSnapshot>(
        WaitingSnapshot{std::move(snapshot), bytes, waiting_.insert(waiting_.end(), owner)});
    waiting_bytes_ += bytes;
  });
}

void OwnerTable::ReplaceWaiting(const std::string& owner, Snapshot snapshot) {
  CHECK(HasWaiting(arrival(owner)));
  records_.at(owner).waiting->snapshot = std::move(snapshot);
}

const Snapshot* OwnerTable::Waiting(const std::string& owner, std::optional<uint64_t> id) const {
  const Record* const record = Find(owner);
  if (record == nullptr || record->waiting == nullptr) return nullptr;
  const Snapshot& snapshot = record->waiting->snapshot;
  return !id || snapshot.header().id == *id ? &snapshot : nullptr;
}

void OwnerTable::DropWaiting(const std::string& owner) {
  Edit(owner, [&](Record& record) {
    CHECK(record.waiting != nullptr);
    record.dropped.push_back(record.waiting->snapshot.header().id);
    Advance(record, ArrivalEvent::kRemove);
  });
}

bool OwnerTable::ConsumeDropped(const std::string& owner, uint64_t id) {
  bool dropped = false;
  Edit(owner, [&](Record& record) { dropped = std::erase(record.dropped, id) > 0; });
  return dropped;
}

int64_t OwnerTable::waiting_bytes_except_last() const {
  return waiting_.empty() ? 0 : waiting_bytes_ - records_.at(waiting_.back()).waiting->bytes;
}

std::optional<std::string> OwnerTable::OldestWaitingExceptLast() const {
  if (waiting_.size() < 2) return std::nullopt;
  return waiting_.front();
}

uint64_t OwnerTable::Fork(const std::string& from, const std::string& to) {
  Edit(to, [&](Record& record) {
    Advance(record, ArrivalEvent::kFork);
    record.fork = std::make_unique<PendingFork>(PendingFork{from, ++last_fork_});
  });
  return last_fork_;
}

bool OwnerTable::IsForking(const std::string& to, uint64_t ticket) const {
  const Record* const record = Find(to);
  return record != nullptr && record->fork != nullptr && record->fork->ticket == ticket;
}

std::optional<std::string> OwnerTable::ForkSource(const std::string& to) const {
  const Record* const record = Find(to);
  if (record == nullptr || record->fork == nullptr) return std::nullopt;
  return record->fork->from;
}

void OwnerTable::SetOnDisk(const std::string& owner, std::optional<uint64_t> id) {
  Edit(owner, [&](Record& record) { record.disk_id = id; });
}

bool OwnerTable::IsOnDisk(const std::string& owner, uint64_t id) const {
  const Record* const record = Find(owner);
  return record != nullptr && record->disk_id == id && !ringside::IsErasing(record->disk_work);
}

void OwnerTable::KeepOnDisk(const std::string& owner, bool keep) {
  Edit(owner, [&](Record& record) { record.keep_on_disk = keep; });
}

bool OwnerTable::IsKeptOnDisk(const std::string& owner) const {
  const Record* const record = Find(owner);
  return record != nullptr && record->keep_on_disk;
}

void OwnerTable::KeepNoneOnDisk() {
  for (auto at = records_.begin(); at != records_.end();) {
    at->second.keep_on_disk = false;
    at = at->second.IsBlank() ? records_.erase(at) : std::next(at);
  }
}

void OwnerTable::SetInSlot(const std::string& owner, bool in_slot) {
  Edit(owner, [&](Record& record) { record.in_slot = in_slot; });
}

void OwnerTable::BeginSave(const std::string& owner, int64_t bytes) {
  saving_bytes_ += bytes;
  Edit(owner, [](Record& record) { ++record.saves; });
}

void OwnerTable::EndSave(const std::string& owner, int64_t bytes) {
  saving_bytes_ -= bytes;
  Edit(owner, [](Record& record) {
    CHECK(record.saves > 0);
    --record.saves;
  });
}

bool OwnerTable::IsSpareBase(const std::string& owner) const {
  const Record* const record = Find(owner);
  return record != nullptr && record->in_slot && record->saves == 0;
}

}  // namespace ringside
