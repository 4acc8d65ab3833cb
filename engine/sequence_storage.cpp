#include "engine/sequence_storage.h"

#include <algorithm>
#include <limits>
#include <set>
#include <utility>

#include "base/log.h"
#include "kernels/slab_memory.h"

namespace ringside {
namespace {

// Minimum wait for a stored cache, however fast recomputation would be: a busy storage thread is no reason to
// recompute. And the maximum wait while no rate has been measured.
constexpr int64_t kMinFetchWaitMs = 100, kDefaultFetchWaitMs = 5000;
// Minimum rows of a step for a useful estimate of prefill speed.
constexpr int64_t kMinMeasuredRows = 16;
// Copies per round if the engine thread makes them: about 10 ms.
constexpr int64_t kMaxCopiedPerRound = 32 << 20;

int64_t CopiedBytes(const Snapshot& snapshot, const Snapshot* base) {
  std::set<const std::byte*> shared;
  if (base != nullptr) {
    for (const SnapshotChunk& chunk : base->chunks()) shared.insert(chunk.bytes.data());
  }
  int64_t bytes = 0;
  for (const SnapshotChunk& chunk : snapshot.chunks()) {
    if (!shared.contains(chunk.bytes.data())) bytes += static_cast<int64_t>(chunk.bytes.size());
  }
  return bytes;
}

// Bytes of a snapshot outside pinned memory, if the device copies from pinned memory.
int64_t PageableBytes(const Snapshot& snapshot, size_t cell_bytes) {
  const BlobReserve& reserve = BlobReserve::Instance();
  int64_t bytes = 0;
  if (!reserve.has_cells(cell_bytes)) return bytes;
  for (const SnapshotChunk& chunk : snapshot.chunks()) {
    if (!reserve.IsInCell(chunk.bytes.data())) bytes += static_cast<int64_t>(chunk.bytes.size());
  }
  return bytes;
}

}  // namespace

bool SequenceStorage::MayCopyMore() const { return copied_in_round_ < kMaxCopiedPerRound; }

bool SequenceStorage::HasRoomFor(const std::string& owner, const KvCache& cache, const Snapshot* base) const {
  const CaptureSize size = SizeOfCapture(cache, memory_, base);
  if (!storage_.tiers->WouldKeep(owner, size.all_bytes, saving_bytes_)) return false;
  const auto chunk_bytes = static_cast<size_t>(SnapshotChunkBytes(cache.shape(), memory_));
  const BlobReserve& reserve = BlobReserve::Instance();
  return !reserve.has_cells(chunk_bytes) || static_cast<int64_t>(reserve.free_cells(chunk_bytes)) >= size.chunks;
}

bool SequenceStorage::HasSpareRoomFor(const KvCache& cache) const {
  constexpr int64_t kManifestBytes = 4096;  // estimate
  if (storage_.tiers == nullptr) return false;
  if (!Snapshot::CanCapture(cache)) return true;  // it needs no room
  return SizeOfCapture(cache, memory_, nullptr).all_bytes + kManifestBytes + saving_bytes_ <=
         storage_.tiers->host_room();
}

bool SequenceStorage::Keeps(const std::string& owner, const KvCache& cache) const {
  if (cache.ring().next() == 0) return true;  // an empty cache loses nothing
  return storage_.tiers != nullptr && !owner.empty() && Snapshot::CanCapture(cache) &&
         HasRoomFor(owner, cache, nullptr);
}

SequenceStorage::Saved SequenceStorage::Save(const std::string& owner, Sequence& sequence, Effort effort) {
  if (storage_.tiers == nullptr || owner.empty() || !memory_.status().ok()) return Saved::kNothing;
  const KvCache& cache = *sequence.cache();
  std::optional<Snapshot> base;
  if (cache.snapshot() != 0) base = storage_.tiers->Base(owner);
  const bool same = base && base->header().id == cache.snapshot();
  // A cache that was only rolled back since is a prefix of the snapshot in memory.
  if (same && cache.ring().unchanged() == cache.ring().next() && cache.ring().next() > 0) return Saved::kYes;
  return Offer(owner, sequence, base ? &*base : nullptr, effort);
}

SequenceStorage::Saved SequenceStorage::SaveCopy(const std::string& owner, Sequence& sequence) {
  if (storage_.tiers == nullptr || owner.empty()) return Saved::kNothing;
  const Saved saved = Offer(owner, sequence, nullptr, Effort::kIfRoom);
  if (saved != Saved::kRefused) sequence.cache()->set_snapshot(0);
  return saved;
}

SequenceStorage::Saved SequenceStorage::Offer(const std::string& owner, Sequence& sequence, const Snapshot* base,
                                              Effort effort) {
  KvCache& cache = *sequence.cache();
  if (cache.ring().next() == 0 || !Snapshot::CanCapture(cache)) return Saved::kNothing;
  if (effort == Effort::kIfRoom && !HasRoomFor(owner, cache, base)) return Saved::kRefused;
  const int64_t begin = clock_.MonotonicNs();
  const SnapshotProof proof{storage_.FingerprintUnder(sequence.adapter())};
  PendingSave save{owner, &cache, 0,
                   Snapshot::BeginCapture(cache, memory_, proof, sequence.tokens(), sequence.replay_start(), base)};
  save.snapshot = save.capture.snapshot.header().id;
  origins_.Note(save.capture.snapshot);
  ++counts_.captures;
  const int64_t copied = CopiedBytes(save.capture.snapshot, base);
  counts_.captured_bytes += static_cast<uint64_t>(copied);
  if (!BlobReserve::Instance().has_cells(static_cast<size_t>(SnapshotChunkBytes(cache.shape(), memory_)))) {
    copied_in_round_ += copied;
  }
  counts_.capture_ms += static_cast<double>(clock_.MonotonicNs() - begin) * 1e-6;
  if (save.capture.ticket == 0) return Store(std::move(save));
  saving_bytes_ += save.capture.snapshot.chunk_bytes();
  saves_.push_back(std::move(save));
  return Saved::kCopying;
}

SequenceStorage::Saved SequenceStorage::Store(PendingSave save) {
  Snapshot snapshot = Snapshot::FinishCapture(std::move(save.capture), memory_);
  // After a device failure its rows cannot be trusted.
  if (save.owner.empty() || !memory_.status().ok()) return Saved::kNothing;
  if (storage_.tiers->Store(save.owner, std::move(snapshot), nullptr).ok()) return Saved::kYes;
  // The tiers have an older snapshot, which cannot be the base of the next capture.
  if (save.cache->snapshot() == save.snapshot) save.cache->set_snapshot(0);
  ++counts_.saves_refused;
  return Saved::kRefused;
}

SequenceStorage::~SequenceStorage() {
  for (const PendingSave& save : saves_) memory_.WaitForCopy(save.capture.ticket);
  for (const PendingLoad& load : loads_) memory_.WaitForCopy(load.restore.ticket);
}

bool SequenceStorage::Saves(const KvCache* cache) const {
  return std::any_of(saves_.begin(), saves_.end(), [&](const PendingSave& save) { return save.cache == cache; });
}

bool SequenceStorage::Saves(const std::string& owner) const {
  return !owner.empty() &&
         std::any_of(saves_.begin(), saves_.end(), [&](const PendingSave& save) { return save.owner == owner; });
}

bool SequenceStorage::Loads(const KvCache* cache) const {
  return std::any_of(loads_.begin(), loads_.end(), [&](const PendingLoad& load) { return load.cache == cache; });
}

double SequenceStorage::LoadingNs(const KvCache* cache) const {
  double bytes = 0;
  for (const PendingLoad& load : loads_) {
    bytes += static_cast<double>(load.restore.snapshot.chunk_bytes());
    if (load.cache != cache) continue;
    if (bytes_per_ns_ == 0) return std::numeric_limits<double>::infinity();
    const int64_t begun = std::max(loads_.front().begin_ns, loaded_ns_);
    return std::max(bytes / bytes_per_ns_ - static_cast<double>(clock_.MonotonicNs() - begun), 0.0);
  }
  return 0;
}

std::vector<SequenceStorage::Outcome> SequenceStorage::CollectSaved(bool wait) {
  std::vector<Outcome> out;
  while (!saves_.empty() && (wait || memory_.CopyDone(saves_.front().capture.ticket))) {
    PendingSave save = std::move(saves_.front());
    saves_.erase(saves_.begin());
    saving_bytes_ -= save.capture.snapshot.chunk_bytes();
    const KvCache* cache = save.cache;
    const bool current =
        cache != nullptr && cache->snapshot() == save.snapshot && cache->ring().unchanged() == cache->ring().next();
    const Saved saved = Store(std::move(save));
    if (cache != nullptr) out.push_back({cache, saved, current});
  }
  return out;
}

std::vector<SequenceStorage::Loaded> SequenceStorage::CollectLoaded() {
  std::vector<Loaded> out;
  while (!loads_.empty() && memory_.CopyDone(loads_.front().restore.ticket)) {
    const PendingLoad& load = loads_.front();
    const int64_t now = clock_.MonotonicNs();
    const double ms = load.ms + static_cast<double>(now - load.begin_ns) * 1e-6;
    // If another load was still in progress at the start, this one's transfer time is unknown.
    if (std::exchange(loaded_ns_, now) <= load.begin_ns) {
      const auto bytes = static_cast<double>(load.restore.snapshot.chunk_bytes());
      bytes_per_ns_ = std::max(bytes_per_ns_, bytes / static_cast<double>(std::max<int64_t>(now - load.begin_ns, 1)));
    }
    NoteLoaded(load, ms);
    out.push_back({load.cache, ms});
    loads_.erase(loads_.begin());
  }
  return out;
}

void SequenceStorage::Forget(const std::string& owner, const KvCache* cache) {
  for (PendingSave& save : saves_) {
    if (save.cache != cache && save.owner != owner) continue;
    save.owner.clear();
    save.cache = nullptr;  // it may be lent again before the copy is done
  }
  for (PendingLoad& load : loads_) {
    if (load.cache == cache) load.cache = nullptr;
  }
}

SequenceStorage::FetchPlan SequenceStorage::PlanFetch(const std::string& owner, int64_t tokens) {
  FetchPlan plan;
  if (storage_.tiers == nullptr || owner.empty()) return plan;
  const auto place = storage_.tiers->Find(owner);
  if (!place) return plan;
  plan.stored = true;
  const double rate = counts_.prefill_tokens_per_second;
  const double computing_ms = rate > 0 ? 1e3 * static_cast<double>(tokens) / rate : kDefaultFetchWaitMs;
  int64_t wait_ms = storage_.fetch_deadline_ms;
  if (wait_ms == 0) {
    if (place->estimated_ms > computing_ms) {
      ++counts_.recomputed_instead;
      return plan;
    }
    wait_ms = std::max(kMinFetchWaitMs, static_cast<int64_t>(computing_ms));
  }
  plan.ask = true;
  plan.deadline_ns = clock_.MonotonicNs() + wait_ms * 1'000'000;
  return plan;
}

std::optional<double> SequenceStorage::Restore(const Result<FetchedSnapshot>& fetched, SlabRange present,
                                               const RingWindow& window, int adapter, int64_t wanted,
                                               Sequence& sequence) {
  const int64_t begin = clock_.MonotonicNs();
  Status status = fetched.status();
  if (status.ok() && !(fetched->snapshot.header().window == window))
    status = Mismatch("snapshot: captured with another window");
  // The engine thread itself copies from pageable memory, and all turns wait; a recomputation shares the steps with
  // them.
  const auto cell_bytes = static_cast<size_t>(SnapshotChunkBytes(sequence.cache()->shape(), memory_));
  if (status.ok() && PageableBytes(fetched->snapshot, cell_bytes) > kMaxCopiedPerRound) {
    status = Overloaded("snapshot: not in pinned memory");
  }
  PendingLoad load{sequence.cache(), false, 0, 0, {}};
  if (status.ok()) {
    auto begun = fetched->snapshot.BeginRestore(*sequence.cache(), memory_, {storage_.FingerprintUnder(adapter)},
                                                wanted, present);
    status = begun.status();
    if (begun.ok()) load.restore = std::move(*begun);
  }
  if (!status.ok()) {
    LogDebug("recomputing a stored cache: {}", status.message());
    ++counts_.fetches_failed;
    return std::nullopt;
  }
  const SnapshotHeader& header = fetched->snapshot.header();
  load.host = fetched->tier == StorageTier::kHost;
  sequence.Restored(header.tokens, header.replay_start, adapter, load.host ? CacheSource::kHost : CacheSource::kDisk);
  load.begin_ns = clock_.MonotonicNs();
  load.ms = fetched->ms + static_cast<double>(load.begin_ns - begin) * 1e-6;
  const double ms = load.ms;
  if (load.restore.ticket == 0)
    NoteLoaded(load, ms);
  else
    loads_.push_back(std::move(load));
  return ms;
}

void SequenceStorage::NoteLoaded(const PendingLoad& load, double ms) {
  ++(load.host ? counts_.restores_host : counts_.restores_disk);
  counts_.restored_bytes += static_cast<uint64_t>(load.restore.snapshot.chunk_bytes());
  counts_.restore_ms += ms;
}

void SequenceStorage::NotePrefill(int64_t tokens, int64_t took_ns) {
  if (tokens < kMinMeasuredRows || took_ns <= 0) return;
  const double now = 1e9 * static_cast<double>(tokens) / static_cast<double>(took_ns);
  double& rate = counts_.prefill_tokens_per_second;
  rate = rate == 0 ? now : 0.8 * rate + 0.2 * now;
}

}  // namespace ringside
