// The recurrent state in snapshots: which boundaries are stored, and where the bytes of their chunks are in a slab.
#include <algorithm>
#include <iterator>

#include "cache/snapshot.h"

namespace ringside {
namespace {

constexpr int64_t kChunk = StateShape::kChunk;
// Limit of the bytes of older boundaries, as a part of the bytes of the rows.
constexpr int64_t kRowsPerBoundaries = 2;

int64_t Parts(int64_t bytes, int64_t part_bytes) { return (bytes + part_bytes - 1) / part_bytes; }

}  // namespace

int64_t SnapshotHeader::Floor(int64_t to) const {
  if (state.empty() || to >= StateShape::BoundaryBefore(next)) return to;
  const auto after = std::ranges::upper_bound(boundaries, to);
  return after == boundaries.begin() ? 0 : *std::prev(after);
}

int64_t Snapshot::bytes_of(const SnapshotChunk& chunk) const {
  if (chunk.has_tiles()) return chunk.count * header_.tile_bytes();
  const bool tail = chunk.region == SnapshotRegion::kTail;
  const int64_t bytes = tail ? header_.tail_bytes() : header_.state.slot_bytes();
  return std::min(header_.chunk_bytes(), bytes - chunk.count * header_.chunk_bytes());
}

void Snapshot::PlanStateChunks() {
  const int64_t part_bytes = header_.chunk_bytes();
  const auto plan = [&](SnapshotRegion region, int64_t position, int64_t bytes) {
    for (int64_t part = 0; part < Parts(bytes, part_bytes); ++part) {
      chunks_.push_back({region, position / kChunk, part, std::nullopt, {}});
    }
  };
  for (const int64_t boundary : header_.boundaries) {
    plan(SnapshotRegion::kBoundary, boundary, header_.state.slot_bytes());
  }
  plan(SnapshotRegion::kTail, StateShape::BoundaryBefore(header_.next), header_.tail_bytes());
}

std::vector<int64_t> Snapshot::BoundariesToStore(const KvCache& cache, const Snapshot* base) {
  const StateSlots& state = cache.state();
  std::vector<int64_t> boundaries = state.positions();
  if (!state.used() || base == nullptr) return boundaries;
  const Ring& ring = cache.ring();
  for (const int64_t older : base->header_.boundaries) {
    if (older <= ring.unchanged() && state.SlotOf(older) < 0) boundaries.push_back(older);
  }
  std::ranges::sort(boundaries);
  const KvShape& shape = cache.shape();
  const int64_t rows_bytes = shape.HeldBytes(ring.next(), ring.window().pinned) - shape.state.bytes();
  const int64_t most = rows_bytes / kRowsPerBoundaries / shape.state.slot_bytes();
  return ThinBoundaries(std::move(boundaries), std::max(most, state.slots()), cache.state_marks());
}

bool Snapshot::IsUnchanged(const KvCache& cache, const SnapshotChunk& chunk, const Snapshot& base) const {
  const int64_t unchanged = cache.ring().unchanged(), next = header_.next;
  switch (chunk.region) {
    case SnapshotRegion::kBoundary:
      return chunk.index * kChunk <= unchanged &&
             std::ranges::binary_search(base.header_.boundaries, chunk.index * kChunk);
    case SnapshotRegion::kTail:
      return next <= unchanged && base.header_.next == next;
    default:
      break;
  }
  const int64_t begin = (chunk.pinned() ? 0 : header_.window.pinned) + chunk.index * header_.chunk_positions();
  const int64_t end = std::min(begin + chunk.count * KvShape::kTile, chunk.pinned() ? header_.window.pinned : next);
  return std::min(end, next) <= unchanged;
}

bool Snapshot::PlanState(const KvCache& cache, const SnapshotChunk& chunk, std::byte* host,
                         std::vector<SlabRun>* runs) const {
  const StateShape& shape = cache.shape().state;
  const int64_t first = chunk.count * header_.chunk_bytes(), last = first + bytes_of(chunk);
  if (chunk.region == SnapshotRegion::kBoundary) {
    const int slot = cache.state().SlotOf(chunk.index * kChunk);
    if (slot < 0) return false;
    runs->push_back({shape.BoundaryOffset(slot, 0) + first, last - first, host});
    return true;
  }
  // A layer's rows of the tail are contiguous in the slab, the layers are not.
  const int64_t layer_bytes = header_.tail_rows() * shape.tail_row_bytes;
  for (int64_t at = first; at < last;) {
    const int64_t within = at % layer_bytes, bytes = std::min(layer_bytes - within, last - at);
    runs->push_back({shape.TailOffset(at / layer_bytes, 0) + within, bytes, host + (at - first)});
    at += bytes;
  }
  return true;
}

}  // namespace ringside
