#include "kernels/cuda/attention/attention_staging.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <utility>

#include "kernels/attention_checks.h"
#include "kernels/cuda/attention/wide/wide_blocks.h"
#include "kernels/cuda/attention/wide/wide_staging.h"
#include "kernels/prefix_groups.h"

namespace ringside::cuda {
namespace {

constexpr int64_t kTileQueries = 16;
constexpr int64_t kChunkQueries = 128;
// Least key tiles (of 16 keys) per split; with fewer, reducing the splits costs more than it saves.
constexpr int64_t kMinSplitTiles = 8, kMinChunkSplitTiles = 32;
// Key tiles that further splits must save each block, to pay for the kernel that reduces them.
constexpr int64_t kApartSavedTiles = 16;
// Bytes of a layer that rows must not read again, to pay for the kernels of a shared prefix (about 10 us on an H200),
// and the largest size of their partial results.
constexpr int64_t kMinSavedPrefixBytes = int64_t{24} << 20, kMaxPartialBytes = int64_t{96} << 20;
constexpr int64_t kMinPrefixSplitTiles = 16;

/// The largest divisor of the heads of a group whose queries fit in a tile of `queries`.
int64_t TileHeads(int64_t group, int64_t queries) {
  int64_t heads = std::clamp<int64_t>(group, 1, queries);
  while (group % heads != 0) --heads;
  return heads;
}

/// The oldest ring position that row r of a segment attends to.
int64_t FirstSeen(const AttentionSegment& s, int64_t r, const SeenWindow& window) {
  return window.size > 0 ? std::max(s.first_live[r], window.Oldest(s.position + r)) : s.first_live[r];
}
/// Row r's position relative to its pinned keys.
int64_t PinnedAt(const AttentionSegment& s, int64_t r) {
  const int64_t t = s.position + r;
  return t < s.pinned ? t : s.pinned + t - s.first_live[r];
}
/// Whether row r attends to any pinned key before it.
bool SeesPinned(const AttentionSegment& s, int64_t r, const SeenWindow& window) {
  return window.size == 0 || window.Oldest(PinnedAt(s, r)) < std::min(s.pinned, s.position + r + 1);
}

/// Whether rows of a sequence see only a part of its pinned keys, or different parts.
bool SplitsPinned(const AttentionArgs& args, const SeenWindow& window) {
  if (window.size == 0) return false;
  return std::ranges::any_of(args.segments, [&](const AttentionSegment& s) {
    bool any = false, all = true;
    for (int64_t r = 0; r < s.rows; ++r) {
      any = any || SeesPinned(s, r, window);
      all = all && window.Oldest(PinnedAt(s, r)) <= 0;
    }
    return any && !all;
  });
}

/// The shared prefixes of a step, and for each segment the first position after its prefix: S and whole tiles; 0: none.
struct Prefixes {
  std::vector<PrefixGroup> groups;
  std::vector<int64_t> ends;

  explicit Prefixes(size_t segments) : ends(segments) {}
  void Add(PrefixGroup group) {
    group.end -= (group.end - group.pinned) % KvShape::kTile;
    for (const size_t s : group.segments) ends[s] = group.end;
    groups.push_back(std::move(group));
  }
};

/// The prefixes that are worth two more kernels and whose partial results fit in the scratch memory.
Prefixes PrefixesOf(const AttentionArgs& args, const AttentionPlan& plan, int64_t tile_rows) {
  Prefixes out(args.segments.size());
  const int64_t tile_bytes = args.shape.LayerTileBytes(args.layer);
  const int64_t query_bytes = (plan.head_dim + 2) * int64_t{sizeof(float)} * (plan.heads / plan.tile_heads);
  int64_t bytes = 2 * args.qkv.rows * kTileQueries * query_bytes;  // at least two splits
  for (PrefixGroup& group : PrefixGroupsOf(args)) {
    const int64_t saved = std::ssize(group.segments) - 1;
    int64_t rows = 0;
    for (const size_t s : group.segments) rows += args.segments[s].rows;
    bytes += (rows + tile_rows - 1) / tile_rows * kPrefixQueries * query_bytes;
    if (bytes > kMaxPartialBytes) break;
    if (saved * (group.end / KvShape::kTile) * tile_bytes >= kMinSavedPrefixBytes) out.Add(std::move(group));
  }
  return out;
}

/// Branches are never cut into chunks: chunks need a contiguous cache, and a branch has few rows per step.
bool IsBranch(const AttentionSegment& s) { return s.history != nullptr; }

/// Rows [first, first + count) of a segment and the keys they see after position `prefix_end`, with 0 all of them.
StagedTile MakeTile(const AttentionSegment& s, const KvShape& shape, const SeenWindow& window, VisibleKeys seen,
                    int64_t prefix_end, int64_t first, int64_t count) {
  const int64_t position = s.position + first, end = position + count - 1,
                last = seen == VisibleKeys::kPinned ? s.pinned - 1 : s.LastSeen(first + count - 1);
  int64_t oldest = seen == VisibleKeys::kPinned ? last : end, first_tile = 0, ring_tiles = 0;
  bool pinned = false;
  for (int64_t r = first; r < first + count; ++r) {
    if (s.position + r >= s.pinned) oldest = std::min(oldest, FirstSeen(s, r, window));
    pinned = pinned || (seen != VisibleKeys::kRing && SeesPinned(s, r, window));
  }
  if (prefix_end > 0) oldest = std::max(oldest, prefix_end), pinned = false;
  if (last >= s.pinned) {
    first_tile = (oldest - s.pinned) / KvShape::kTile;
    ring_tiles = (last - s.pinned) / KvShape::kTile - first_tile + 1;
  }
  const int64_t branch_tile = IsBranch(s) ? (s.branch - s.pinned) / KvShape::kTile : INT32_MAX;
  return {.slab = s.slab,
          .history = HistoryOf(s),
          .row = static_cast<int32_t>(s.first_row + first),
          .rows = static_cast<int32_t>(count),
          .position = static_cast<int32_t>(position),
          .pinned = static_cast<int32_t>(s.pinned),
          .first = static_cast<int32_t>(oldest),
          .last = static_cast<int32_t>(last),
          .pinned_tiles = pinned ? static_cast<int32_t>(KvShape::PinnedTiles(std::min(s.pinned, last + 1))) : 0,
          .first_tile = static_cast<int32_t>(first_tile),
          .ring_tiles = static_cast<int32_t>(ring_tiles),
          .ring_begin = static_cast<int32_t>(ring_tiles > 0 ? first_tile % shape.ring_tiles : 0),
          .own = static_cast<int32_t>(std::max<int64_t>(branch_tile - first_tile, 0)),
          .own_begin = static_cast<int32_t>(std::max<int64_t>(first_tile - branch_tile, 0) % shape.ring_tiles)};
}

/// The rows of a step as the kernels consume them.
struct CutRows {
  std::vector<StagedRow> rows;
  std::vector<StagedTile> tiles;      // tiles of up to 16 query rows (rows times heads), then chunks
  int64_t few = 0;                    // number of these tiles; the chunks after them have up to 128 query rows
  int64_t max_key_tiles[2] = {0, 0};  // key tiles of the longest tile and of the longest chunk
  bool single = true;                 // every sequence has one row
  int64_t prefixes = 0;               // number of tiles of shared prefixes, after the chunks
  int64_t max_prefix_tiles = 0;       // key tiles of the longest prefix
  std::vector<int32_t> prefix_rows, prefix_slots;  // PrefixPlan::rows, ::slots
};

/// Adds the tiles of shared prefixes, of `tile_rows` rows each, and gives their rows places.
void CutPrefixes(const AttentionArgs& args, const Prefixes& prefixes, int64_t tile_rows, CutRows* out) {
  if (!prefixes.groups.empty()) out->prefix_slots.assign(out->rows.size(), -1);
  for (const PrefixGroup& group : prefixes.groups) {
    const auto first_slot = std::ssize(out->prefix_rows);
    for (const size_t i : group.segments) {
      const AttentionSegment& s = args.segments[i];
      for (int64_t row = s.first_row; row < s.first_row + s.rows; ++row) {
        out->prefix_slots[static_cast<size_t>(row)] = static_cast<int32_t>(out->prefix_rows.size());
        out->prefix_rows.push_back(static_cast<int32_t>(row));
      }
    }
    const auto end_slot = std::ssize(out->prefix_rows);
    const int64_t ring_tiles = (group.end - group.pinned) / KvShape::kTile;
    for (int64_t slot = first_slot; slot < end_slot; slot += tile_rows) {
      auto* slab = const_cast<void*>(group.slab);
      out->tiles.push_back({.slab = slab,
                            .history = slab,
                            .row = static_cast<int32_t>(slot),
                            .rows = static_cast<int32_t>(std::min(tile_rows, end_slot - slot)),
                            .position = static_cast<int32_t>(group.end),
                            .pinned = static_cast<int32_t>(group.pinned),
                            .first = static_cast<int32_t>(group.pinned),
                            .last = static_cast<int32_t>(group.end - 1),
                            .pinned_tiles = static_cast<int32_t>(KvShape::PinnedTiles(group.pinned)),
                            .ring_tiles = static_cast<int32_t>(ring_tiles),
                            .own = INT32_MAX});
      ++out->prefixes;
      out->max_prefix_tiles = std::max<int64_t>(out->max_prefix_tiles, out->tiles.back().tiles());
    }
    // The next group's tiles start at a multiple of the tile's rows.
    out->prefix_rows.resize(static_cast<size_t>(out->prefixes * tile_rows));
  }
}

/// `alone`: every row gets a tile to itself, so that the split of its keys over warps depends on its position alone.
/// `tile_rows` is their number otherwise, `chunk_rows` those of a chunk; 0: no chunks.
CutRows Cut(const AttentionArgs& args, const SeenWindow& window, const Prefixes& prefixes, int64_t tile_rows,
            int64_t chunk_rows, bool alone) {
  CutRows out;
  out.rows.resize(static_cast<size_t>(args.qkv.rows));
  std::vector<StagedTile> chunks;
  if (alone) tile_rows = 1;
  int64_t covered = 0;
  for (size_t i = 0; i < args.segments.size(); ++i) {
    const AttentionSegment& s = args.segments[i];
    const int64_t prefix_end = prefixes.ends[i];
    covered += s.rows;
    out.single = out.single && s.rows == 1;
    for (int64_t r = 0; r < s.rows; ++r) {
      const int64_t t = s.position + r;
      out.rows[static_cast<size_t>(s.first_row + r)] = {
          .slab = s.slab,
          .history = HistoryOf(s),
          .branch = IsBranch(s) ? static_cast<int32_t>(s.branch) : INT32_MAX,
          .position = static_cast<int32_t>(t),
          .pinned = static_cast<int32_t>(s.pinned),
          .first_live = static_cast<int32_t>(t < s.pinned ? s.pinned : std::max(FirstSeen(s, r, window), prefix_end)),
          .last_seen = static_cast<int32_t>(s.LastSeen(r)),
          .pinned_at = static_cast<int32_t>(PinnedAt(s, r))};
    }
    // Later rows see more keys. They come first, so that no SM is left with a long tile in the last wave.
    const bool chunk = chunk_rows > 0 && !alone && !IsBranch(s) && prefix_end == 0 && s.rows > 2 * tile_rows;
    const int64_t step = chunk ? chunk_rows : tile_rows;
    for (int64_t r = (s.rows - 1) / step * step; r >= 0 && s.rows > 0; r -= step) {
      const StagedTile tile = MakeTile(s, args.shape, window, args.seen, prefix_end, r, std::min(step, s.rows - r));
      (chunk ? chunks : out.tiles).push_back(tile);
      out.max_key_tiles[chunk] = std::max<int64_t>(out.max_key_tiles[chunk], tile.tiles());
    }
  }
  CHECK_EQ(covered, args.qkv.rows);
  out.few = static_cast<int64_t>(out.tiles.size());
  out.tiles.insert(out.tiles.end(), chunks.begin(), chunks.end());
  CutPrefixes(args, prefixes, kPrefixQueries / kTileQueries * tile_rows, &out);
  return out;
}

/// The part of the plan that all layers of a step share, without splits and staged pointers.
AttentionPlan PlanOf(const AttentionArgs& args, int64_t tile_heads) {
  const KvShape& shape = args.shape;
  const bool rotates = args.pairs != RopePairs::kNone && args.rotary > 0;
  AttentionPlan plan;
  const auto [kv_heads, head_dim] = shape.Layer(args.layer);
  plan.tile_bytes = shape.tile_bytes(), plan.half_tile_bytes = KvShape::kTile * head_dim * shape.element_bytes();
  plan.head_tile_bytes = shape.HeadTileBytes(head_dim);
  plan.ring_tiles = static_cast<int32_t>(shape.ring_tiles);
  plan.heads = static_cast<int32_t>(args.heads), plan.kv_heads = static_cast<int32_t>(kv_heads);
  plan.head_dim = static_cast<int32_t>(head_dim), plan.value_dim = static_cast<int32_t>(shape.ValueDim(head_dim));
  plan.latent = shape.latent_dim > 0 ? 1 : 0;
  plan.rotary = rotates ? static_cast<int32_t>(args.rotary) : 0;
  plan.first_rotary = rotates ? static_cast<int32_t>(args.first_rotary) : 0;
  plan.adjacent_pairs = args.pairs == RopePairs::kAdjacent ? 1 : 0;
  plan.cache = shape.dtype;
  plan.tile_heads = static_cast<int32_t>(tile_heads);
  plan.tile_heads_inverse = static_cast<int32_t>((65536 + tile_heads - 1) / tile_heads);
  plan.tiles_of_group = static_cast<int32_t>(args.heads / kv_heads / tile_heads);
  plan.seen = args.seen;
  plan.queries_only = HasQueriesOnly(args) ? 1 : 0;
  return plan;
}

/// Whether scores have modifiers other than a window, or rows see later pinned keys.
bool HasTraits(const AttentionArgs& args) {
  const ScoreTraits& scores = args.scores;
  return scores.soft_cap > 0 || scores.slopes != nullptr || scores.sinks != nullptr || scores.biases != nullptr ||
         (args.seen == VisibleKeys::kPinned && !HasQueriesOnly(args));
}

/// Queries per block of the WGMMA kernel, from the longest chunk and the largest number of keys seen.
int32_t WgmmaQueries(const AttentionArgs& args, const SeenWindow& window, int64_t tile_heads) {
  int64_t rows = 0, keys = 0;
  for (const AttentionSegment& s : args.segments) {
    if (s.rows <= 1 || IsBranch(s)) continue;
    const int64_t next = s.position + s.rows;
    rows = std::max(rows, s.rows);
    keys = std::max(keys, next <= s.pinned ? next : next - FirstSeen(s, s.rows - 1, window) + s.pinned);
  }
  return WgmmaAttentionQueries(args.shape.dtype, args.shape.Layer(args.layer).head_dim, rows * tile_heads, keys);
}

int Resident(const Launcher& on, const AttentionPlan& plan, bool chunk, int splits) {
  if (chunk && plan.wgmma_queries > 0) return ResidentWgmmaTiles(plan, splits);
  return ResidentAttentionTiles(on, plan.cache, plan.head_dim, chunk, splits);
}

/// The largest power of two of splits whose blocks are all resident; powers of two keep the number of distinct graphs
/// small. (Doubling it for chunks, whose rows see half of the keys on average, was 10 to 45 % slower.)
int32_t ChooseSplits(const Launcher& on, const AttentionPlan& plan, bool chunk, int64_t tiles, int64_t max_key_tiles) {
  const int64_t items = tiles * (plan.heads / plan.tile_heads), least = chunk ? kMinChunkSplitTiles : kMinSplitTiles;
  int32_t splits = kMaxSplits;
  while (splits > 1 && (max_key_tiles < splits * least || items > Resident(on, plan, chunk, splits))) {
    splits /= 2;
  }
  return splits;
}

/// The largest power of two of splits with a block per SM, if it is larger than a cluster and worth it; or 0.
int32_t ChooseApartSplits(const Launcher& on, const AttentionPlan& plan, int64_t max_key_tiles) {
  if (!on.large || plan.tile_count == 0) return 0;
  const int64_t items = int64_t{plan.tile_count} * (plan.heads / plan.tile_heads);
  int32_t splits = kMaxApartSplits;
  while (splits > plan.splits && items * splits > on.multiprocessors) splits /= 2;
  const bool pays = max_key_tiles / plan.splits - max_key_tiles / splits >= kApartSavedTiles;
  return splits > plan.splits && pays ? splits : 0;
}

/// The largest power of two of splits of shared prefixes with a block per SM.
int32_t ChoosePrefixSplits(const Launcher& on, const AttentionPlan& plan, int32_t count, int64_t max_key_tiles) {
  const int64_t items = int64_t{count} * (plan.heads / plan.tile_heads);
  int32_t splits = kMaxApartSplits;
  while (splits > 1 && (items * splits > on.multiprocessors || max_key_tiles < splits * kMinPrefixSplitTiles)) {
    splits /= 2;
  }
  return splits;
}

/// Whether the blocks need more than one wave; then two half-size blocks share an SM.
bool IsPaired(const Launcher& on, const AttentionPlan& plan) {
  const int64_t items = int64_t{plan.tile_count} * (plan.heads / plan.tile_heads);
  return on.large && plan.splits == 1 && items > on.multiprocessors && items > Resident(on, plan, false, 1);
}

/// The largest distance from a row to a pinned key that any row sees.
int64_t FarthestKey(const AttentionArgs& args) {
  int64_t farthest = 0;
  for (const AttentionSegment& s : args.segments) {
    for (int64_t r = 0; r < s.rows; ++r) {
      farthest = std::max(farthest, PinnedAt(s, r));
    }
  }
  return farthest;
}
/// The largest position of a row.
int64_t NewestRow(const AttentionArgs& args) {
  int64_t newest = 0;
  for (const AttentionSegment& s : args.segments) newest = std::max(newest, s.position + s.rows - 1);
  return newest;
}
/// Whether the scores of all rows have the factor 1.
bool AreOnes(const AttentionArgs& args) {
  return std::ranges::all_of(std::span(args.query_scales, static_cast<size_t>(args.qkv.rows)),
                             [](float scale) { return scale == 1; });
}

}  // namespace

StagedAttention AttentionStaging::StageSegments(const AttentionArgs& args, const PlanKey& layers) {
  const int64_t tile_heads = layers.tile_heads;
  const SeenWindow& window = layers.window;
  AttentionPlan plan = PlanOf(args, tile_heads);
  plan.window = static_cast<int32_t>(window.size), plan.chunked = window.chunked ? 1 : 0;
  // With a fixed order only the layer may select the kernel, not the rows that share the step.
  const bool traits = layers.traits || (window.size > 0 && (fixed_order_ || SplitsPinned(args, window)));
  plan.traits = traits || layers.weights || layers.query_scales != nullptr ? 1 : 0;
  plan.wide_queries = layers.wide_queries;
  const auto await = [&](const void* slab, int64_t tokens, int64_t pinned) {
    memory_->Await(slab, static_cast<size_t>(args.shape.HeldBytes(tokens, pinned)));
  };
  for (const AttentionSegment& s : args.segments) {
    if (IsBranch(s)) await(s.history, s.branch, s.pinned);
    if (s.prefix != nullptr) await(s.prefix, s.prefix_end, s.pinned);
    IsBranch(s) ? await(s.slab, s.position + s.rows - s.branch, 0) : await(s.slab, s.position + s.rows, s.pinned);
  }
  const DeviceMemory::Range range = memory_->RangeOf(args.segments.front().slab);
  // The first tile comes after the slab's recurrent state, which need not be a whole number of half tiles.
  const std::byte* memory = range.begin + args.shape.state.bytes() % plan.half_tile_bytes;
  plan.memory = memory, plan.memory_bytes = range.begin + range.bytes - memory;
  const bool one_type = args.qkv.dtype == args.out.dtype;
  const bool usual = args.seen == VisibleKeys::kBefore && args.heads > 0 && HasTiledAttention(plan);
  // The WGMMA kernels address half tiles of one size.
  const bool halves = args.shape.varied.empty() && !layers.weights;
  if (recorder_->launcher().hopper && one_type && usual && halves && !traits && AllowsVec8(plan, args.qkv)) {
    plan.wgmma_queries = WgmmaQueries(args, window, tile_heads);
  }
  if (plan.wgmma_queries > 0) {  // these kernels address the memory as an array of half tiles
    CHECK_LE(plan.memory_bytes / plan.half_tile_bytes, int64_t{INT32_MAX});  // kMaxHalfTiles plus a page
    for (const AttentionSegment& s : args.segments) {
      const std::byte* slab = static_cast<std::byte*>(s.slab);
      CHECK(slab >= range.begin && slab < range.begin + range.bytes);
      CHECK_EQ((slab + args.shape.state.bytes() - memory) % plan.half_tile_bytes, 0);
    }
  }
  if (plan.wide_queries > 0) CheckWideSlabs(args, range);
  const bool wide = plan.wide_queries > 0;
  const int64_t tile_rows = (wide ? plan.wide_queries : kTileQueries) / tile_heads;
  const int64_t chunk_rows = wide                     ? 0
                             : plan.wgmma_queries > 0 ? plan.wgmma_queries / tile_heads
                                                      : kChunkQueries / kTileQueries * tile_rows;
  // The split of a softmax over a prefix and a row's own keys depends on the other rows of the step.
  const int64_t prefix_rows = kPrefixQueries / kTileQueries * tile_rows;
  const bool groups = usual && plan.traits == 0 && plan.queries_only == 0 && !wide && !fixed_order_;
  const Prefixes prefixes = groups ? PrefixesOf(args, plan, prefix_rows) : Prefixes(args.segments.size());
  const CutRows cut = Cut(args, window, prefixes, tile_rows, chunk_rows, fixed_order_ && !wide);
  const RopeAngles& from = args.angles;
  // One allocation: a rewind of the staging buffer must not happen between its parts.
  const size_t row_bytes = (cut.rows.size() * sizeof(StagedRow) + 15) / 16 * 16,
               tile_bytes = cut.tiles.size() * sizeof(StagedTile),
               angle_bytes = static_cast<size_t>(args.qkv.rows * plan.rotary / 2) * sizeof(float),
               scale_bytes = layers.query_scales != nullptr ? static_cast<size_t>(args.qkv.rows) * sizeof(float) : 0;
  const bool one_rotation = from.pinned_cos == from.own_cos && from.pinned_sin == from.own_sin;
  WideBlocks blocks;
  if (wide && !fixed_order_) {
    blocks = DivideWideTiles(recorder_->launcher().multiprocessors, plan.heads / plan.tile_heads,
                             WidePartialBytes(plan), cut.tiles);
  }
  const size_t split_bytes = blocks.splits.size() * sizeof(StagedSplit),
               first_bytes = blocks.first.size() * sizeof(int32_t),
               prefix_bytes = cut.prefix_rows.size() * sizeof(int32_t),
               slot_bytes = cut.prefix_slots.size() * sizeof(int32_t);
  const Staging::Place place =
      recorder_->ReserveStaging(row_bytes + tile_bytes + (one_rotation ? 2 : 4) * angle_bytes + scale_bytes +
                                split_bytes + first_bytes + prefix_bytes + slot_bytes);
  auto* host = static_cast<std::byte*>(place.host);
  auto* device = static_cast<std::byte*>(place.device);
  const auto put = [&](const void* data, size_t bytes, size_t room) {
    if (bytes > 0) std::memcpy(host, data, bytes);
    const void* at = device;
    host += room, device += room;
    return at;
  };
  plan.rows = static_cast<const StagedRow*>(put(cut.rows.data(), cut.rows.size() * sizeof(StagedRow), row_bytes));
  plan.tiles = static_cast<const StagedTile*>(put(cut.tiles.data(), tile_bytes, tile_bytes));
  plan.own_cos = static_cast<const float*>(put(from.own_cos, angle_bytes, angle_bytes));
  plan.own_sin = static_cast<const float*>(put(from.own_sin, angle_bytes, angle_bytes));
  plan.pinned_cos = plan.own_cos, plan.pinned_sin = plan.own_sin;
  if (!one_rotation) {
    plan.pinned_cos = static_cast<const float*>(put(from.pinned_cos, angle_bytes, angle_bytes));
    plan.pinned_sin = static_cast<const float*>(put(from.pinned_sin, angle_bytes, angle_bytes));
  }
  if (scale_bytes > 0) {
    plan.query_scales = static_cast<const float*>(put(layers.query_scales, scale_bytes, scale_bytes));
  }
  plan.chunk_tiles = plan.tiles + cut.few;
  plan.tile_count = static_cast<int32_t>(cut.few);
  plan.chunk_count = static_cast<int32_t>(std::ssize(cut.tiles) - cut.few - cut.prefixes);
  PrefixPlan shared;
  if (cut.prefixes > 0) {
    shared = {.tiles = plan.chunk_tiles + plan.chunk_count,
              .rows = static_cast<const int32_t*>(put(cut.prefix_rows.data(), prefix_bytes, prefix_bytes)),
              .slots = static_cast<const int32_t*>(put(cut.prefix_slots.data(), slot_bytes, slot_bytes)),
              .count = static_cast<int32_t>(cut.prefixes),
              .tile_rows = static_cast<int32_t>(prefix_rows)};
  }
  const bool tiled = HasTiledAttention(plan);
  const bool stores = tiled && args.heads > 0 && args.seen != VisibleKeys::kPinned && plan.queries_only == 0;
  plan.stores = cut.single && stores ? 1 : 0;
  if (wide && fixed_order_) plan.splits = MostFixedSplits(cut.tiles), plan.split_units = kFixedSplitUnits;
  if (wide && !fixed_order_) {
    plan.splits = static_cast<int32_t>(blocks.splits.size());
    plan.wide_splits = static_cast<const StagedSplit*>(put(blocks.splits.data(), split_bytes, split_bytes));
    plan.first_splits = static_cast<const int32_t*>(put(blocks.first.data(), first_bytes, first_bytes));
  }
  // Otherwise a fixed order excludes splits: their number depends on the other rows of the step.
  if (tiled && args.heads > 0 && !fixed_order_) {
    plan.splits = ChooseSplits(recorder_->launcher(), plan, false, plan.tile_count, cut.max_key_tiles[0]);
    if (const int32_t apart = ChooseApartSplits(recorder_->launcher(), plan, cut.max_key_tiles[0]); apart > 0) {
      plan.splits = apart, plan.apart = 1;
    }
    if (shared.count > 0) {
      shared.splits = ChoosePrefixSplits(recorder_->launcher(), plan, shared.count, cut.max_prefix_tiles);
      plan.splits = std::max(plan.splits, 2), plan.apart = 1;
    }
    plan.paired = IsPaired(recorder_->launcher(), plan) ? 1 : 0;
    plan.chunk_splits = ChooseSplits(recorder_->launcher(), plan, true, plan.chunk_count, cut.max_key_tiles[1]);
  }
  return {plan, shared};
}

// Layers differ in window, rotation and traits. A network has few distinct combinations, so each is staged once per
// step.
StagedAttention AttentionStaging::PlanFor(const AttentionArgs& args) {
  if (args.step == 0 || args.step != staged_.step || staged_.epoch != recorder_->staging_epoch()) {
    staged_ = {.step = args.step,
               .epoch = recorder_->staging_epoch(),
               .farthest = FarthestKey(args),
               .newest = NewestRow(args)};
  }
  const ScoreTraits& scores = args.scores;
  const int64_t farthest = staged_.farthest, newest = staged_.newest;
  // A window that masks no key of any row is dropped, and so are factors of 1.
  const bool narrows = scores.window > 0 && (fixed_order_ || (scores.chunked ? newest : farthest) >= scores.window);
  const float* query_scales =
      args.query_scales != nullptr && (fixed_order_ || !AreOnes(args)) ? args.query_scales : nullptr;
  const bool rotates = args.pairs != RopePairs::kNone && args.rotary > 0;
  const KvLayer sizes = args.shape.Layer(args.layer);
  const AttentionPlan like = PlanOf(args, 1);
  const int32_t wide_queries = AllowsWideAttention(recorder_->launcher(), args, like) ? WideAttentionQueries(like) : 0;
  const PlanKey wanted{
      .heads = args.heads,
      .sizes = sizes,
      .wide_queries = wide_queries,
      .tile_heads = TileHeads(args.heads / sizes.kv_heads, std::max<int64_t>(wide_queries, kTileQueries)),
      .window = narrows ? SeenWindow{scores.window, scores.chunked} : SeenWindow{},
      .traits = HasTraits(args),
      .weights = args.query_weights != nullptr,
      .seen = args.seen,
      .queries_only = HasQueriesOnly(args),
      .angles = rotates ? args.angles.own_cos : nullptr,
      .query_scales = query_scales};
  for (const auto& [layers, staged] : staged_.plans) {
    PlanKey without = layers;
    if (!rotates) without.angles = nullptr;  // the other fields still have to match
    if (without == wanted) return staged;
  }
  const StagedAttention staged = StageSegments(args, wanted);
  if (const uint64_t epoch = recorder_->staging_epoch(); staged_.epoch != epoch) {  // the buffer was rewound
    staged_ = {.step = args.step, .epoch = epoch, .farthest = farthest, .newest = newest};
  }
  staged_.plans.emplace_back(wanted, staged);
  return staged;
}

}  // namespace ringside::cuda
