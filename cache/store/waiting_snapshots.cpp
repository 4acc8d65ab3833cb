#include "cache/store/waiting_snapshots.h"

#include <utility>

#include "base/check.h"

namespace ringside {
namespace {

int64_t MemoryBytes(const Snapshot& snapshot) {
  const SnapshotHeader& header = snapshot.header();
  const size_t lists = header.tokens.size() * sizeof(int32_t) + header.message_starts.size() * sizeof(int64_t);
  return snapshot.chunk_bytes() + static_cast<int64_t>(lists);
}

}  // namespace

void WaitingSnapshots::Add(const std::string& owner, Snapshot snapshot) {
  Erase(owner);
  const int64_t bytes = MemoryBytes(snapshot);
  waiting_.emplace(++last_place_, Waiting{owner, std::move(snapshot), bytes});
  places_.emplace(owner, last_place_);
  bytes_ += bytes;
}

void WaitingSnapshots::Replace(const std::string& owner, Snapshot snapshot) {
  const auto place = places_.find(owner);
  CHECK(place != places_.end());
  waiting_.at(place->second).snapshot = std::move(snapshot);
}

const Snapshot* WaitingSnapshots::Find(const std::string& owner) const {
  const auto place = places_.find(owner);
  return place == places_.end() ? nullptr : &waiting_.at(place->second).snapshot;
}

const Snapshot* WaitingSnapshots::Find(const std::string& owner, uint64_t id) const {
  const Snapshot* snapshot = Find(owner);
  return snapshot != nullptr && snapshot->header().id == id ? snapshot : nullptr;
}

void WaitingSnapshots::Erase(const std::string& owner) {
  const auto place = places_.find(owner);
  if (place == places_.end()) return;
  const auto waiting = waiting_.find(place->second);
  bytes_ -= waiting->second.bytes;
  waiting_.erase(waiting);
  places_.erase(place);
}

int64_t WaitingSnapshots::bytes_except_last() const {
  return waiting_.empty() ? 0 : bytes_ - waiting_.rbegin()->second.bytes;
}

std::optional<std::string> WaitingSnapshots::OldestExceptLast() const {
  if (waiting_.size() < 2) return std::nullopt;
  return waiting_.begin()->second.owner;
}

}  // namespace ringside
