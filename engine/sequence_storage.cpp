#include "engine/sequence_storage.h"

#include <algorithm>
#include <set>
#include <utility>

#include "base/log.h"

namespace ringside {
namespace {

// A turn waits at least so long for what is stored, however fast computing would be: a busy storage thread is no reason
// to compute. And no longer than this while nothing was measured yet.
constexpr int64_t kLeastWaitMs = 100, kUnmeasuredWaitMs = 5000;
// A step of fewer rows says little of how fast a long prefill is.
constexpr int64_t kMeasuredRows = 16;

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

}  // namespace

SequenceStorage::Saved SequenceStorage::Save(const std::string& owner, Sequence& sequence) {
  if (storage_.tiers == nullptr || owner.empty()) return Saved::kNothing;
  const KvCache& cache = *sequence.cache();
  std::optional<Snapshot> base;
  if (cache.snapshot() != 0) base = storage_.tiers->Base(owner);
  const bool same = base && base->header().id == cache.snapshot();
  // A cache that was only rolled back since is a prefix of what memory has.
  if (same && cache.ring().unchanged() == cache.ring().next() && cache.ring().next() > 0) return Saved::kYes;
  return Offer(owner, sequence, base ? &*base : nullptr);
}

SequenceStorage::Saved SequenceStorage::SaveCopy(const std::string& owner, Sequence& sequence) {
  if (storage_.tiers == nullptr || owner.empty()) return Saved::kNothing;
  const Saved saved = Offer(owner, sequence, nullptr);
  sequence.cache()->set_snapshot(0);
  return saved;
}

SequenceStorage::Saved SequenceStorage::Offer(const std::string& owner, Sequence& sequence, const Snapshot* base) {
  KvCache& cache = *sequence.cache();
  if (cache.ring().next() == 0 || !Snapshot::CanCapture(cache)) return Saved::kNothing;
  const int64_t begin = clock_.MonotonicNs();
  Snapshot snapshot =
      Snapshot::Capture(cache, backend_, {storage_.fingerprint}, sequence.tokens(), sequence.replay_start(), base);
  ++counts_.captures;
  counts_.captured_bytes += static_cast<uint64_t>(CopiedBytes(snapshot, base));
  counts_.capture_ms += static_cast<double>(clock_.MonotonicNs() - begin) * 1e-6;
  const Status accepted = storage_.tiers->Store(owner, std::move(snapshot), nullptr);
  if (accepted.ok()) return Saved::kYes;
  // The tiers have an older one: no base for the next capture.
  cache.set_snapshot(0);
  ++counts_.saves_refused;
  return Saved::kRefused;
}

SequenceStorage::FetchPlan SequenceStorage::PlanFetch(const std::string& owner, int64_t tokens) {
  FetchPlan plan;
  if (storage_.tiers == nullptr || owner.empty()) return plan;
  const auto place = storage_.tiers->Find(owner);
  if (!place) return plan;
  plan.stored = true;
  const double rate = counts_.prefill_tokens_per_second;
  const double computing_ms = rate > 0 ? 1e3 * static_cast<double>(tokens) / rate : kUnmeasuredWaitMs;
  int64_t wait_ms = storage_.fetch_deadline_ms;
  if (wait_ms == 0) {
    if (place->estimated_ms > computing_ms) {
      ++counts_.recomputed_instead;
      return plan;
    }
    wait_ms = std::max(kLeastWaitMs, static_cast<int64_t>(computing_ms));
  }
  plan.ask = true;
  plan.deadline_ns = clock_.MonotonicNs() + wait_ms * 1'000'000;
  return plan;
}

std::optional<double> SequenceStorage::Restore(const Result<FetchedSnapshot>& fetched, const RingWindow& window,
                                               Sequence& sequence) {
  const int64_t begin = clock_.MonotonicNs();
  Status status = fetched.status();
  if (status.ok() && !(fetched->snapshot.header().window == window)) status = Mismatch("snapshot: of another window");
  if (status.ok()) status = fetched->snapshot.Restore(*sequence.cache(), backend_, {storage_.fingerprint});
  if (!status.ok()) {
    LogDebug("a stored cache is computed again: {}", status.message());
    ++counts_.fetches_failed;
    return std::nullopt;
  }
  const SnapshotHeader& header = fetched->snapshot.header();
  const bool host = fetched->tier == StorageTier::kHost;
  sequence.Restored(header.tokens, header.replay_start, host ? CacheSource::kHost : CacheSource::kDisk);
  const double ms = fetched->ms + static_cast<double>(clock_.MonotonicNs() - begin) * 1e-6;
  ++(host ? counts_.restores_host : counts_.restores_disk);
  counts_.restored_bytes += static_cast<uint64_t>(fetched->snapshot.chunk_bytes());
  counts_.restore_ms += ms;
  return ms;
}

void SequenceStorage::NotePrefill(int64_t tokens, int64_t took_ns) {
  if (tokens < kMeasuredRows || took_ns <= 0) return;
  const double now = 1e9 * static_cast<double>(tokens) / static_cast<double>(took_ns);
  double& rate = counts_.prefill_tokens_per_second;
  rate = rate == 0 ? now : 0.8 * rate + 0.2 * now;
}

}  // namespace ringside
