#include "cache/kv_branch.h"

#include <algorithm>

#include "base/check.h"
#include "kernels/slab_memory.h"

namespace ringside {
namespace {

int64_t TilesOf(int64_t rows) { return (rows + KvShape::kTile - 1) / KvShape::kTile; }

/// Copies `count` tiles from one slab to another.
int64_t CopyTiles(SlabMemory& memory, const KvShape& shape, void* to, int64_t to_tile, const void* from,
                  int64_t from_tile, int64_t count) {
  if (count <= 0) return 0;
  const int64_t bytes = count * shape.tile_bytes();
  memory.CopyOnDevice(static_cast<std::byte*>(to) + to_tile * shape.tile_bytes(),
                      static_cast<const std::byte*>(from) + from_tile * shape.tile_bytes(), static_cast<size_t>(bytes));
  return bytes;
}

/// First tile of the branch, as an index in the whole slab.
int64_t BranchTile(const KvCache& branch) {
  return branch.shape().Slot(branch.branch(), branch.ring().window().pinned) / KvShape::kTile;
}

}  // namespace

int64_t BranchOff(SlabMemory& memory, KvCache* cache, const KvCache& history, int64_t tokens) {
  cache->BranchOff(history, tokens);
  const bool begun = tokens > cache->branch();
  return CopyTiles(memory, cache->shape(), cache->slab(), 0, history.slab(), BranchTile(*cache), begun ? 1 : 0);
}

int64_t CopyBranch(SlabMemory& memory, KvCache* to, const KvCache& from, int64_t position) {
  CHECK(to->history() == from.history() && to->branch() == from.branch() && position >= to->branch());
  to->ring() = from.ring();
  const int64_t first = (position - to->branch()) / KvShape::kTile, last = TilesOf(from.ring().next() - to->branch());
  return CopyTiles(memory, to->shape(), to->slab(), first, from.slab(), first, last - first);
}

int64_t ExtendBranch(SlabMemory& memory, KvCache* to, const KvCache& from, int64_t end) {
  Ring& ring = to->ring();
  CHECK(to->history() == from.history() && to->branch() == from.branch());
  CHECK(ring.next() <= end && end <= from.ring().next());
  const int64_t first = (ring.next() - to->branch()) / KvShape::kTile, last = TilesOf(end - to->branch());
  while (ring.next() < end) ring.Append(std::min(end - ring.next(), ring.max_chunk()));
  return CopyTiles(memory, to->shape(), to->slab(), first, from.slab(), first, last - first);
}

int64_t JoinBranch(SlabMemory& memory, KvCache* history, const KvCache& branch, int64_t end) {
  Ring& ring = history->ring();
  CHECK(branch.history() == history->slab() && ring.next() >= branch.branch());
  CHECK(ring.next() <= end && end <= branch.ring().next());
  if (end == ring.next()) return 0;
  const KvShape& shape = history->shape();
  // The ring may wrap between two tiles.
  const int64_t tiles = TilesOf(end - branch.branch()), pinned_tiles = KvShape::PinnedTiles(ring.window().pinned);
  const int64_t first = BranchTile(branch) - pinned_tiles, before_turn = std::min(tiles, shape.ring_tiles - first);
  int64_t copied =
      CopyTiles(memory, shape, history->slab(), pinned_tiles + first, branch.slab(), 0, before_turn) +
      CopyTiles(memory, shape, history->slab(), pinned_tiles, branch.slab(), before_turn, tiles - before_turn);
  // The last tile was copied whole, so the rows after `end` in it are overwritten, too.
  const int64_t written = branch.branch() + tiles * KvShape::kTile;
  while (ring.next() < written) ring.Append(std::min(written - ring.next(), ring.max_chunk()));
  ring.RollBack(end);
  return copied;
}

}  // namespace ringside
