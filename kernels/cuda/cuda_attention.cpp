// The attention of the CUDA backend: checks segments, brings what their rows need to the device, cuts rows into tiles
// of up to 16 queries and decides into how many splits their keys go.
#include <algorithm>
#include <bit>
#include <cstring>

#include "kernels/cuda/cuda_backend.h"

namespace ringside::cuda {
namespace {

constexpr int64_t kTileQueries = 16;
constexpr int64_t kLeastSplitTiles = 8;  // of 16 keys: less is not worth joining
constexpr int64_t kMostSplits = 64;      // as the kernel has it

void CheckSegment(const AttentionSegment& s, const KvShape& shape, int64_t rows) {
  CHECK(s.slab != nullptr);
  CHECK(s.first_row >= 0 && s.rows >= 0 && s.first_row + s.rows <= rows);
  CHECK(s.position >= 0 && s.pinned >= 0);
  CHECK_LE(s.position + s.rows, int64_t{INT32_MAX});
  CHECK_LE(s.pinned, shape.pinned_capacity());
  for (int64_t r = 0; r < s.rows; ++r) {
    const int64_t t = s.position + r;
    if (t < s.pinned) continue;
    CHECK(s.first_live[r] >= s.pinned && s.first_live[r] <= t);
    // Rows are written before they are read: nothing that row r still sees may have been overwritten by a later one.
    CHECK_LT(s.position + s.rows - 1 - s.first_live[r], shape.ring_rows());
  }
}

void CheckAttention(const AttentionArgs& args) {
  const KvShape& shape = args.shape;
  CHECK(!IsQuantised(args.qkv.dtype) && !IsQuantised(args.out.dtype) && !IsQuantised(shape.dtype));
  CHECK(shape.head_dim > 0 && shape.head_dim <= 256 && shape.head_dim % 2 == 0);
  CHECK(shape.kv_heads > 0 && args.heads > 0 && args.heads % shape.kv_heads == 0);
  CHECK_EQ(args.qkv.cols, (args.heads + 2 * shape.kv_heads) * shape.head_dim);
  CHECK_EQ(args.out.cols, args.heads * shape.head_dim);
  CHECK(args.layer >= 0 && args.layer < shape.layers);
  if (args.pairs != RopePairs::kNone) {
    CHECK(args.rotary >= 0 && args.rotary <= shape.head_dim && args.rotary % 2 == 0);
  }
  for (const AttentionSegment& s : args.segments) CheckSegment(s, shape, args.qkv.rows);
}

/// The largest part of a group of heads, all parts equal, whose queries fit a tile.
int64_t TileHeads(int64_t group) {
  int64_t heads = std::min(group, kTileQueries);
  while (group % heads != 0) --heads;
  return heads;
}

/// Rows [first, first + count) of a segment and the keys they see.
StagedTile MakeTile(const AttentionSegment& s, int64_t first, int64_t count) {
  const int64_t position = s.position + first, last = position + count - 1;
  int64_t oldest = last, first_tile = 0, ring_tiles = 0;
  for (int64_t r = first; r < first + count; ++r) {
    if (s.position + r >= s.pinned) oldest = std::min(oldest, s.first_live[r]);
  }
  if (last >= s.pinned) {
    first_tile = (oldest - s.pinned) / KvShape::kTile;
    ring_tiles = (last - s.pinned) / KvShape::kTile - first_tile + 1;
  }
  return {.slab = s.slab,
          .row = static_cast<int32_t>(s.first_row + first),
          .rows = static_cast<int32_t>(count),
          .position = static_cast<int32_t>(position),
          .pinned = static_cast<int32_t>(s.pinned),
          .first = static_cast<int32_t>(oldest),
          .last = static_cast<int32_t>(last),
          .pinned_tiles = static_cast<int32_t>((std::min(s.pinned, last + 1) + KvShape::kTile - 1) / KvShape::kTile),
          .first_tile = static_cast<int32_t>(first_tile),
          .ring_tiles = static_cast<int32_t>(ring_tiles)};
}

}  // namespace

void CudaBackend::StageSegments(const AttentionArgs& args, int64_t tile_heads) {
  std::vector<StagedRow> rows(static_cast<size_t>(args.qkv.rows));
  std::vector<StagedTile> tiles;
  const int64_t tile_rows = kTileQueries / tile_heads;
  bool single = true;
  int64_t most_keys = 0, covered = 0;
  for (const AttentionSegment& s : args.segments) {
    covered += s.rows;
    single = single && s.rows == 1;
    for (int64_t r = 0; r < s.rows; ++r) {
      const int64_t t = s.position + r;
      rows[static_cast<size_t>(s.first_row + r)] = {s.slab, static_cast<int32_t>(t), static_cast<int32_t>(s.pinned),
                                                    static_cast<int32_t>(t < s.pinned ? s.pinned : s.first_live[r]), 0};
    }
    // Later rows see more keys: first, so that no multiprocessor is left with a long one at the end.
    for (int64_t r = (s.rows - 1) / tile_rows * tile_rows; r >= 0 && s.rows > 0; r -= tile_rows) {
      const int64_t count = std::min(tile_rows, s.rows - r);
      tiles.push_back(MakeTile(s, r, count));
      most_keys = std::max<int64_t>(most_keys, tiles.back().tiles());
    }
  }
  CHECK_EQ(covered, args.qkv.rows);
  AttentionPlan plan;
  const bool rotates = args.pairs != RopePairs::kNone && args.rotary > 0;
  const size_t angles = rotates ? static_cast<size_t>(args.qkv.rows * args.rotary / 2) : 0;
  const RopeAngles& from = args.angles;
  // One piece: a rewind of the staging memory must not come between its parts.
  const size_t row_bytes = rows.size() * sizeof(StagedRow),
               tile_bytes = (tiles.size() * sizeof(StagedTile) + 15) / 16 * 16;
  const Staging::Place place = StageRoom(row_bytes + tile_bytes + 4 * angles * sizeof(float));
  auto* host = static_cast<std::byte*>(place.host);
  auto* device = static_cast<std::byte*>(place.device);
  const auto put = [&](const void* data, size_t bytes, size_t room) {
    if (bytes > 0) std::memcpy(host, data, bytes);
    const void* at = device;
    host += room, device += room;
    return at;
  };
  plan.rows = static_cast<const StagedRow*>(put(rows.data(), row_bytes, row_bytes));
  plan.tiles = static_cast<const StagedTile*>(put(tiles.data(), tiles.size() * sizeof(StagedTile), tile_bytes));
  const size_t angle_bytes = angles * sizeof(float);
  plan.own_cos = static_cast<const float*>(put(from.own_cos, angle_bytes, angle_bytes));
  plan.own_sin = static_cast<const float*>(put(from.own_sin, angle_bytes, angle_bytes));
  plan.pinned_cos = static_cast<const float*>(put(from.pinned_cos, angle_bytes, angle_bytes));
  plan.pinned_sin = static_cast<const float*>(put(from.pinned_sin, angle_bytes, angle_bytes));
  plan.rotary = rotates ? static_cast<int32_t>(args.rotary) : 0;
  plan.adjacent_pairs = args.pairs == RopePairs::kAdjacent ? 1 : 0;
  plan.tile_count = static_cast<int32_t>(tiles.size());
  plan.stores = single && HasTiledAttention(args.shape.dtype, args.shape.head_dim) ? 1 : 0;
  staged_ = {args.step, tile_heads, plan, most_keys};
}

// As many splits as fill the device once or twice, of at least 128 keys, a power of two: few different graphs.
void CudaBackend::ChooseSplits(AttentionPlan* plan, int64_t most_keys) const {
  const int64_t items = static_cast<int64_t>(plan->tile_count) * (plan->heads / plan->tile_heads);
  const auto wanted = static_cast<int64_t>(2 * properties_.multiProcessorCount) / std::max<int64_t>(1, items);
  int64_t splits = std::min({wanted, most_keys / kLeastSplitTiles, kMostSplits});
  const int64_t partial_bytes = items * 16 * (plan->head_dim + 2) * static_cast<int64_t>(sizeof(float));
  if (items > kMostCounters) splits = 1;
  splits = std::min(splits, static_cast<int64_t>(kPartialBytes) / std::max<int64_t>(1, partial_bytes));
  plan->splits = splits < 2 ? 1 : static_cast<int32_t>(std::bit_floor(static_cast<uint64_t>(splits)));
}

void CudaBackend::Attention(const AttentionArgs& args) {
  CheckAttention(args);
  if (args.qkv.rows == 0) return;
  const KvShape& shape = args.shape;
  const int64_t tile_heads = TileHeads(args.heads / shape.kv_heads);
  if (args.step == 0 || args.step != staged_.step || tile_heads != staged_.tile_heads) StageSegments(args, tile_heads);
  AttentionPlan plan = staged_.plan;
  plan.qkv = args.qkv, plan.out = args.out;
  plan.partials = partials_, plan.counters = counters_;
  plan.layer_offset = args.layer * shape.layer_bytes();
  plan.tile_bytes = shape.tile_bytes(), plan.half_tile_bytes = shape.half_tile_bytes();
  plan.pinned_tiles = static_cast<int32_t>(shape.pinned_tiles),
  plan.ring_tiles = static_cast<int32_t>(shape.ring_tiles);
  plan.heads = static_cast<int32_t>(args.heads), plan.kv_heads = static_cast<int32_t>(shape.kv_heads);
  plan.head_dim = static_cast<int32_t>(shape.head_dim);
  plan.scale = args.scale;
  plan.cache = shape.dtype;
  plan.tile_heads = static_cast<int32_t>(tile_heads);
  ChooseSplits(&plan, staged_.most_keys);
  Record({.kind = OpKind::kAttention, .x = args.qkv, .y = args.out, .attention = plan}, args.qkv.rows);
}

}  // namespace ringside::cuda
