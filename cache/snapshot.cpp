#include "cache/snapshot.h"

#include <algorithm>
#include <cstring>
#include <random>
#include <utility>

#include "base/check.h"
#include "base/defect.h"
#include "kernels/slab_memory.h"

namespace ringside {
namespace {

constexpr int64_t kTile = KvShape::kTile;

uint64_t NewSnapshotId() {
  static thread_local std::mt19937_64 random = [] {
    std::random_device device;
    std::seed_seq seed{device(), device(), device(), device()};
    return std::mt19937_64(seed);
  }();
  return random() | 1;  // 0 means none
}

/// Calls f(offset in a tile, bytes) for each contiguous run of the lanes [first, last): keys are stored
/// [dimension][lane] and values [lane][dimension], or keys alone [lane][dimension].
template <class F>
void ForEachRun(const KvShape& shape, int64_t first, int64_t last, const F& f) {
  const int64_t element = shape.element_bytes();
  for (int64_t layer = 0; layer < shape.layers; ++layer) {
    const auto [kv_heads, head_dim] = shape.Layer(layer);
    const int64_t row = head_dim * element, rows = (last - first) * row;
    for (int64_t head = 0; head < kv_heads; ++head) {
      const int64_t keys = shape.LayerOffset(layer) + head * shape.HeadTileBytes(head_dim);
      if (shape.latent_dim > 0) {
        f(keys + first * row, static_cast<size_t>(rows));
        continue;
      }
      for (int64_t d = 0; d < head_dim; ++d) {
        f(keys + (d * kTile + first) * element, static_cast<size_t>((last - first) * element));
      }
      f(keys + kTile * row + first * row, static_cast<size_t>(rows));
    }
  }
}

void ClearLanes(std::byte* tile, const SnapshotHeader& header, int64_t first, int64_t last) {
  ForEachRun(header.shape(), first, last, [&](int64_t at, size_t bytes) { std::memset(tile + at, 0, bytes); });
}

void MergeLanes(std::byte* tile, const std::byte* other, const SnapshotHeader& header, int64_t first, int64_t last) {
  ForEachRun(header.shape(), first, last, [&](int64_t at, size_t bytes) { std::memcpy(tile + at, other + at, bytes); });
}

// A trade-off: large chunks need fewer copies, small ones copy less again when only a few tokens are new.
int64_t TilesPerChunk(const KvShape& shape, const SlabMemory& memory) {
  constexpr int64_t kMost = 8;
  return std::clamp<int64_t>(memory.slab_chunk_bytes() / shape.tile_bytes(), 1, kMost);
}

/// The runs without the whole tiles of the range.
std::vector<SlabRun> Without(SlabRange range, const KvShape& shape, const std::vector<SlabRun>& runs) {
  const int64_t tile_bytes = shape.tile_bytes();
  range = {shape.TileBegin((range.begin - shape.state.bytes() + tile_bytes - 1) / tile_bytes),
           shape.TileBegin((range.end - shape.state.bytes()) / tile_bytes)};
  std::vector<SlabRun> out;
  const auto add = [&](const SlabRun& run, int64_t begin, int64_t end) {
    if (begin < end) out.push_back({begin, end - begin, run.host + (begin - run.offset)});
  };
  for (const SlabRun& run : runs) {
    const int64_t end = run.offset + run.bytes;
    if (run.count > 1 || end <= range.begin || run.offset >= range.end) {
      out.push_back(run);
      continue;
    }
    add(run, run.offset, range.begin);
    add(run, range.end, end);
  }
  return out;
}

}  // namespace

int64_t SnapshotChunkBytes(const KvShape& shape, const SlabMemory& memory) {
  return TilesPerChunk(shape, memory) * shape.tile_bytes();
}

CaptureSize SizeOfCapture(const KvCache& cache, const SlabMemory& memory, const Snapshot* base) {
  const Ring& ring = cache.ring();
  const int64_t per_chunk = TilesPerChunk(cache.shape(), memory), pinned = ring.window().pinned;
  const auto chunks = [&](int64_t first, int64_t end) {  // rows of a region
    const int64_t chunk_rows = per_chunk * kTile;
    return end <= first ? 0 : (end - 1) / chunk_rows - first / chunk_rows + 1;
  };
  const auto from = [&](int64_t row) {
    return chunks(row, std::min(pinned, ring.next())) +
           chunks(std::max(row, ring.resident()) - pinned, ring.next() - pinned);
  };
  const bool based = base != nullptr && cache.snapshot() != 0 && base->header().id == cache.snapshot();
  const int64_t rows = std::min(ring.next(), pinned + ring.rows());
  CaptureSize size{from(based ? ring.unchanged() : 0), (rows + kTile - 1) / kTile * cache.shape().tile_bytes() +
                                                           (pinned % kTile == 0 ? 0 : cache.shape().tile_bytes())};
  if (!cache.state().used()) return size;
  Snapshot planned;
  planned.SetShape(cache, memory);
  planned.header_.boundaries = Snapshot::BoundariesToStore(cache, based ? base : nullptr);
  planned.PlanStateChunks();
  for (const SnapshotChunk& chunk : planned.chunks_) {
    size.chunks += based && planned.IsUnchanged(cache, chunk, *base) ? 0 : 1;
    size.all_bytes += planned.bytes_of(chunk);
  }
  return size;
}

Snapshot::TileRange Snapshot::RingTiles(int64_t resident) const {
  const int64_t pinned = header_.window.pinned;
  if (header_.next <= resident) return {};
  return {(resident - pinned) / kTile, (header_.next - 1 - pinned) / kTile};
}

// The chunks of a snapshot are a function of its header alone.
void Snapshot::PlanChunks() {
  const int64_t per_chunk = header_.tiles_per_chunk;
  const auto plan = [&](SnapshotRegion region, TileRange tiles) {
    if (tiles.last < tiles.first) return;
    for (int64_t index = tiles.first / per_chunk; index <= tiles.last / per_chunk; ++index) {
      chunks_.push_back({region, index, std::min(per_chunk, tiles.last + 1 - index * per_chunk), std::nullopt, {}});
    }
  };
  chunks_.clear();
  const int64_t pinned_rows = std::min(header_.window.pinned, header_.next);
  plan(SnapshotRegion::kPinned, {0, (pinned_rows + kTile - 1) / kTile - 1});
  plan(SnapshotRegion::kRing, RingTiles(header_.resident));
  PlanStateChunks();
}

Snapshot Snapshot::Capture(KvCache& cache, SlabMemory& memory, const SnapshotProof& proof,
                           std::span<const int32_t> tokens, int64_t replay_start, const Snapshot* base) {
  return FinishCapture(BeginCapture(cache, memory, proof, tokens, replay_start, base), memory);
}

void Snapshot::SetShape(const KvCache& cache, const SlabMemory& memory) {
  const Ring& ring = cache.ring();
  const KvShape& shape = cache.shape();
  header_.dtype = shape.dtype;
  header_.layers = shape.layers;
  header_.kv_heads = shape.kv_heads;
  header_.head_dim = shape.head_dim;
  header_.latent_dim = shape.latent_dim;
  header_.varied = shape.varied;
  header_.state = shape.state;
  header_.state.slots = 0;
  header_.tiles_per_chunk = TilesPerChunk(shape, memory);
  header_.window = ring.window();
  header_.next = ring.next();
  header_.first_live = ring.FirstLive(ring.next());
  header_.resident = ring.resident();
}

PendingCapture Snapshot::BeginCapture(KvCache& cache, SlabMemory& memory, const SnapshotProof& proof,
                                      std::span<const int32_t> tokens, int64_t replay_start, const Snapshot* base) {
  const Ring& ring = cache.ring();
  CHECK(CanCapture(cache));
  CHECK_EQ(static_cast<int64_t>(tokens.size()), ring.next());
  PendingCapture pending;
  Snapshot& out = pending.snapshot;
  SnapshotHeader& header = out.header_;
  out.SetShape(cache, memory);
  header.proof = proof;
  header.id = NewSnapshotId();
  header.replay_start = replay_start;
  header.message_starts.assign(ring.message_starts().begin(), ring.message_starts().end());
  header.tokens.assign(tokens.begin(), tokens.end());
  const bool based = base != nullptr && cache.snapshot() != 0 && base->header_.id == cache.snapshot() &&
                     base->header_.tiles_per_chunk == header.tiles_per_chunk;
  header.boundaries = BoundariesToStore(cache, based ? base : nullptr);
  out.PlanChunks();
  std::vector<SlabRun> runs;
  for (size_t i = 0; i < out.chunks_.size(); ++i) {
    SnapshotChunk& chunk = out.chunks_[i];
    if (based && out.IsUnchanged(cache, chunk, *base)) {
      const auto found =
          std::ranges::find_if(base->chunks_, [&](const SnapshotChunk& other) { return other.covers_same(chunk); });
      if (found != base->chunks_.end()) {
        chunk = *found;
        continue;
      }
    }
    out.PlanSave(cache, chunk, &runs);
    pending.copied.push_back(i);
  }
  if (!runs.empty()) pending.ticket = memory.SaveSlab(cache.shape(), cache.slab(), runs);
  out.origins_ = ring.origins();
  cache.ring().MarkUnchanged();
  cache.set_snapshot(header.id, header.boundaries);
  return pending;
}

Snapshot Snapshot::FinishCapture(PendingCapture pending, SlabMemory& memory) {
  if (pending.ticket != 0) memory.WaitForCopy(pending.ticket);
  for (const size_t chunk : pending.copied) pending.snapshot.ClearDeadLanes(pending.snapshot.chunks_[chunk]);
  return std::move(pending.snapshot);
}

// Allocates the chunk's memory and records which tiles of the slab go where in it.
void Snapshot::PlanSave(const KvCache& cache, SnapshotChunk& chunk, std::vector<SlabRun>* runs) const {
  const KvShape& shape = cache.shape();
  const int64_t tile_bytes = shape.tile_bytes(), ring_begin = KvShape::PinnedTiles(header_.window.pinned);
  chunk.bytes = Blob::Make(static_cast<size_t>(bytes_of(chunk)));
  chunk.hash.reset();
  if (!chunk.has_tiles()) {
    CHECK(PlanState(cache, chunk, chunk.bytes.writable(), runs));
    return;
  }
  const bool pinned = chunk.pinned();
  const TileRange held = pinned ? TileRange{0, ring_begin - 1} : RingTiles(header_.resident);
  const int64_t begin = chunk.index * header_.tiles_per_chunk;
  for (int64_t i = 0; i < chunk.count;) {
    const int64_t tile = begin + i;
    std::byte* to = chunk.bytes.writable() + i * tile_bytes;
    if (tile < held.first) {  // overwritten before the capture
      std::memset(to, 0, static_cast<size_t>(tile_bytes));
      ++i;
      continue;
    }
    // Tiles of the ring are contiguous up to its end.
    const int64_t physical = pinned ? tile : ring_begin + tile % shape.ring_tiles;
    const int64_t to_wrap = pinned ? chunk.count : shape.ring_tiles - tile % shape.ring_tiles;
    const int64_t run = std::min(chunk.count - i, to_wrap);
    runs->push_back({shape.TileBegin(physical), run * tile_bytes, to});
    i += run;
  }
}

// Clears lanes of the first and the last tile that belong to no live position: leftovers of a roll-back or of the
// slab's previous tenant. They must not leak into the snapshot.
void Snapshot::ClearDeadLanes(SnapshotChunk& chunk) const {
  if (!chunk.has_tiles()) return;
  const int64_t pinned = header_.window.pinned;
  const int64_t first = chunk.pinned() ? 0 : header_.resident - pinned;  // resident rows of the region
  const int64_t last = chunk.pinned() ? std::min(pinned, header_.next) : header_.next - pinned;
  for (int64_t i = 0; i < chunk.count; ++i) {
    const int64_t row = (chunk.index * header_.tiles_per_chunk + i) * kTile;
    const int64_t from = std::clamp<int64_t>(first - row, 0, kTile), to = std::clamp<int64_t>(last - row, 0, kTile);
    std::byte* tile = chunk.bytes.writable() + i * header_.tile_bytes();
    if (from > 0) ClearLanes(tile, header_, 0, from);
    if (to < kTile) ClearLanes(tile, header_, to, kTile);
  }
}

Status Snapshot::CheckFits(const SnapshotProof& proof, const KvShape& shape) const {
  if (!(header_.proof == proof) && !RINGSIDE_DEFECT("fingerprint_not_compared"))
    return Mismatch("snapshot: made for another model or shard");
  if (header_.dtype != shape.dtype || header_.layers != shape.layers || header_.kv_heads != shape.kv_heads ||
      header_.head_dim != shape.head_dim || header_.latent_dim != shape.latent_dim || header_.varied != shape.varied ||
      !header_.state.SameLayout(shape.state)) {
    return Mismatch("snapshot: made for another cache shape");
  }
  if (header_.window.pinned > shape.pinned_capacity() || header_.window.memory_len > shape.ring_rows()) {
    return Mismatch("snapshot: its window is larger than the cache");
  }
  return Status::Ok();
}

Status Snapshot::Restore(KvCache& cache, SlabMemory& memory, const SnapshotProof& proof) const {
  ASSIGN_OR_RETURN(const PendingRestore pending, BeginRestore(cache, memory, proof));
  if (pending.ticket != 0) memory.WaitForCopy(pending.ticket);
  return Status::Ok();
}

Result<PendingRestore> Snapshot::BeginRestore(KvCache& cache, SlabMemory& memory, const SnapshotProof& proof,
                                              int64_t wanted, SlabRange present) const {
  RETURN_IF_ERROR(CheckFits(proof, cache.shape()));
  cache.Reset(header_.window);
  if (!complete()) return Corruption("snapshot: chunks are missing");
  std::vector<int64_t> boundaries;
  if (cache.state().used()) {
    boundaries = ThinBoundaries(header_.boundaries, cache.state().slots(),
                                {wanted, header_.window.pinned, header_.message_starts});
  }
  RETURN_IF_ERROR(cache.Restore(header_.next, header_.resident, header_.message_starts, boundaries));
  PendingRestore pending;
  pending.snapshot = Share();
  std::vector<SlabRun> runs;
  if (const Status status = PlanLoad(cache, &pending.merged, &runs); !status.ok()) {
    cache.Reset(header_.window);
    return status;
  }
  if (present.end > 0) runs = Without(present, cache.shape(), runs);
  if (!runs.empty() && !RINGSIDE_DEFECT("rows_not_restored")) {
    pending.ticket = memory.LoadSlab(cache.shape(), cache.slab(), runs);
  }
  if (origins_.rows() == header_.next) cache.ring().AdoptOrigins(origins_);
  cache.set_snapshot(header_.id, header_.boundaries);
  return pending;
}

Status Snapshot::PlanLoad(const KvCache& cache, Blob* merged, std::vector<SlabRun>* runs) const {
  const KvShape& shape = cache.shape();
  const int64_t tile_bytes = shape.tile_bytes(), ring_tiles = shape.ring_tiles;
  const int64_t ring_begin = KvShape::PinnedTiles(header_.window.pinned);
  TileRange wanted = RingTiles(cache.ring().resident());
  // In a ring that is full up to a lane inside a tile, the same tile holds the oldest and the newest rows.
  const bool shared = wanted.last - wanted.first == ring_tiles;
  const int64_t oldest = wanted.first;
  if (shared) ++wanted.first;
  for (const SnapshotChunk& chunk : chunks_) {
    // The const_cast is safe: LoadSlab only reads.
    auto* from = const_cast<std::byte*>(chunk.bytes.data());
    if (!chunk.has_tiles()) {
      if (chunk.region == SnapshotRegion::kTail && RINGSIDE_DEFECT("tail_not_restored")) continue;
      static_cast<void>(PlanState(cache, chunk, from, runs));  // a boundary without a slot stays in the store
      continue;
    }
    const bool pinned = chunk.pinned();
    const int64_t begin = chunk.index * header_.tiles_per_chunk;
    for (int64_t i = 0; i < chunk.count;) {
      const int64_t tile = begin + i;
      if (!pinned && (tile < wanted.first || tile > wanted.last)) {
        ++i;
        continue;
      }
      const int64_t physical = pinned ? tile : ring_begin + tile % ring_tiles;
      const int64_t to_wrap = pinned ? chunk.count : ring_tiles - tile % ring_tiles;
      const int64_t run = std::min(chunk.count - i, to_wrap);
      runs->push_back({shape.TileBegin(physical), run * tile_bytes, from + i * tile_bytes});
      i += run;
    }
  }
  if (!shared) return Status::Ok();
  *merged = Blob::Make(static_cast<size_t>(tile_bytes));
  const std::byte* new_rows = RingTile(wanted.last);
  const std::byte* old_rows = RingTile(oldest);
  if (new_rows == nullptr || old_rows == nullptr) return Corruption("snapshot: chunks are missing");
  std::memcpy(merged->writable(), new_rows, static_cast<size_t>(tile_bytes));
  MergeLanes(merged->writable(), old_rows, header_, (cache.ring().resident() - header_.window.pinned) % kTile, kTile);
  // Overwrites the tile of the newest rows with the merged one: runs are copied in order.
  runs->push_back({shape.TileBegin(ring_begin + wanted.last % ring_tiles), tile_bytes, merged->writable()});
  return Status::Ok();
}

const std::byte* Snapshot::RingTile(int64_t tile) const {
  for (const SnapshotChunk& chunk : chunks_) {
    const int64_t i = tile - chunk.index * header_.tiles_per_chunk;
    if (chunk.region != SnapshotRegion::kRing || i < 0 || i >= chunk.count) continue;
    return chunk.bytes.data() + i * header_.tile_bytes();
  }
  return nullptr;
}

int64_t Snapshot::chunk_bytes() const {
  int64_t bytes = 0;
  for (const SnapshotChunk& chunk : chunks_) bytes += bytes_of(chunk);
  return bytes;
}

bool Snapshot::complete() const {
  return std::all_of(chunks_.begin(), chunks_.end(), [&](const SnapshotChunk& chunk) {
    return static_cast<int64_t>(chunk.bytes.size()) == bytes_of(chunk);
  });
}

Snapshot Snapshot::Share() const {
  Snapshot out;
  out.header_ = header_;
  out.chunks_ = chunks_;
  out.origins_ = origins_;
  return out;
}

}  // namespace ringside
