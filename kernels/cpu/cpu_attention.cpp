// Attention of the CPU backend. Cuts segments into tiles of rows and heads, and tiles into key blocks if there are too
// few tiles to keep every thread busy (decode of a long conversation). Blocks of a shared prefix are computed for all
// rows of its group (shared_prefix_tiles.h).
#include <algorithm>
#include <limits>
#include <utility>

#include "kernels/attention_checks.h"
#include "kernels/cpu/cpu_backend.h"

namespace ringside::cpu {
namespace {

constexpr int64_t kRowsOfStorePiece = 16;

AttentionCall MakeCall(const AttentionArgs& args) {
  const KvShape& shape = args.shape;
  const auto [kv_heads, head_dim] = shape.Layer(args.layer);
  return {.qkv = args.qkv.f32(),
          .qkv_stride = args.qkv.stride,
          .out = args.out.f32(),
          .out_stride = args.out.stride,
          .heads = args.heads,
          .kv_heads = kv_heads,
          .head_dim = head_dim,
          .rotary = args.pairs == RopePairs::kNone ? 0 : args.rotary,
          .first_rotary = args.first_rotary,
          .value_dim = shape.ValueDim(head_dim),
          .latent = shape.latent_dim > 0,
          .adjacent_pairs = args.pairs == RopePairs::kAdjacent,
          .own_cos = args.angles.own_cos,
          .own_sin = args.angles.own_sin,
          .pinned_cos = args.angles.pinned_cos,
          .pinned_sin = args.angles.pinned_sin,
          .scores = args.scores,
          .query_weights = args.query_weights,
          .query_scales = args.query_scales,
          .all_pinned = args.seen == VisibleKeys::kPinned,
          .kv_dtype = shape.dtype,
          .element_bytes = shape.element_bytes(),
          .head_tile_bytes = shape.HeadTileBytes(head_dim),
          .tile_bytes = shape.tile_bytes(),
          .layer_offset = shape.TileOffset(args.layer, 0, 0),
          .ring_tiles = shape.ring_tiles};
}

/// Fills in the key blocks that the tile's rows see within their window, if there is one.
void FindBlocks(VisibleKeys seen, const ScoreTraits& scores, AttentionTile* tile) {
  const int64_t window = scores.window;
  const int64_t end = tile->position + tile->rows - 1,
                last = tile->last_seen != nullptr ? tile->last_seen[tile->rows - 1] : end;
  const int64_t pinned = seen == VisibleKeys::kBefore   ? std::min(tile->pinned, last + 1)
                         : seen == VisibleKeys::kPinned ? tile->pinned
                                                        : 0;
  tile->pinned_blocks = (pinned + kKeyBlock - 1) / kKeyBlock;
  tile->first_ring_block = tile->ring_blocks = 0;
  if (last < tile->pinned || seen == VisibleKeys::kPinned) return;
  int64_t first = end;
  for (int64_t r = 0; r < tile->rows; ++r) {
    const int64_t t = tile->position + r;
    if (t < tile->pinned) continue;
    const int64_t oldest = window == 0 ? 0 : scores.chunked ? t - t % window : t - window + 1;
    first = std::min(first, std::max(tile->first_live[r], oldest));
  }
  tile->first_ring_block = (first - tile->pinned) / kKeyBlock;
  tile->ring_blocks = (last - tile->pinned) / kKeyBlock - tile->first_ring_block + 1;
}

int64_t Blocks(const AttentionTile& tile) { return tile.pinned_blocks + tile.ring_blocks; }
int64_t OwnBlocks(const AttentionTile& tile) { return Blocks(tile) - tile.shared_blocks; }

}  // namespace

void CpuBackend::StoreKeysAndValues(const AttentionCall& call, std::span<const AttentionSegment> segments) {
  store_pieces_.clear();
  for (const AttentionSegment& s : segments) {
    for (int64_t r = 0; r < s.rows; r += kRowsOfStorePiece) {
      store_pieces_.push_back({&s, r, std::min(kRowsOfStorePiece, s.rows - r)});
    }
  }
  const auto store = [&](int64_t i) {
    const StorePiece& p = store_pieces_[static_cast<size_t>(i)];
    const AttentionSegment& s = *p.segment;
    const bool branched = s.history != nullptr;  // its slab starts at the branch, with no pinned positions
    kernels_.store_rows(call, static_cast<uint8_t*>(s.slab), s.first_row + p.first, p.rows,
                        s.position + p.first - (branched ? s.branch : 0), branched ? 0 : s.pinned);
  };
  int64_t rows = 0;
  for (const StorePiece& p : store_pieces_) rows += p.rows;
  const int64_t count = static_cast<int64_t>(store_pieces_.size());
  if (rows * call.kv_heads * call.head_dim < 4096) {
    for (int64_t i = 0; i < count; ++i) store(i);
  } else {
    pool_.Run(count, store);
  }
}

void CpuBackend::MakeTiles(const AttentionArgs& args) {
  work_.tiles.clear();
  work_.first_tiles.clear();
  const int64_t kv_heads = args.shape.Layer(args.layer).kv_heads;
  const int64_t group = args.heads / kv_heads, heads = std::min(group, kMaxTileQueries);
  const int64_t rows = kMaxTileQueries / heads;
  for (const AttentionSegment& s : args.segments) {
    work_.first_tiles.push_back(static_cast<int64_t>(work_.tiles.size()));
    // Later rows see more keys. They come first, so that no thread is left with a long tile at the end.
    for (int64_t r = (s.rows - 1) / rows * rows; r >= 0 && s.rows > 0; r -= rows) {
      for (int64_t g = 0; g < kv_heads; ++g) {
        for (int64_t h = 0; h < group; h += heads) {
          AttentionTile tile{.first_live = s.first_live + r,
                             .last_seen = s.last_seen != nullptr ? s.last_seen + r : nullptr,
                             .slab = static_cast<const uint8_t*>(s.slab),
                             .history = static_cast<const uint8_t*>(s.history != nullptr ? s.history : s.slab),
                             .first_own = s.history != nullptr ? (s.branch - s.pinned) / KvShape::kTile
                                                               : std::numeric_limits<int64_t>::max(),
                             .row = s.first_row + r,
                             .rows = std::min(rows, s.rows - r),
                             .position = s.position + r,
                             .pinned = s.pinned,
                             .kv_head = g,
                             .head = g * group + h,
                             .heads = std::min(heads, group - h)};
          FindBlocks(args.seen, args.scores, &tile);
          work_.tiles.push_back(tile);
        }
      }
    }
    // Encoders: all rows see the same keys, and those of one head fit the caches.
    if (args.seen == VisibleKeys::kPinned) {
      std::ranges::sort(work_.tiles.begin() + work_.first_tiles.back(), work_.tiles.end(), {},
                        [](const AttentionTile& tile) { return std::pair(tile.head, -tile.row); });
    }
  }
  work_.first_tiles.push_back(static_cast<int64_t>(work_.tiles.size()));
  work_.shared.Build(args, work_.first_tiles, kv_heads * ((group + heads - 1) / heads), work_.tiles);
}

void CpuBackend::RunTiles(const AttentionCall& call) {
  int64_t blocks = 0;
  for (const AttentionTile& tile : work_.tiles) blocks += OwnBlocks(tile);
  // Splits tiles with more blocks than a fair share of a thread; the others are cheaper as a whole.
  const int64_t fair = std::max<int64_t>(1, blocks / (4 * pool_.threads()));
  const int64_t partial_floats = (call.value_dim + 15) / 16 * 16 + 16;  // o, then m and l
  int64_t floats = 0;
  work_.pieces.clear();
  work_.split_tiles.clear();
  for (size_t i = 0; i < work_.tiles.size(); ++i) {
    AttentionTile& tile = work_.tiles[i];
    if (tile.shared_blocks == 0 && (pool_.threads() == 1 || Blocks(tile) <= fair)) {
      work_.pieces.push_back({static_cast<int64_t>(i), -1});
      continue;
    }
    tile.partial = floats;
    floats += Blocks(tile) * tile.rows * tile.heads * partial_floats;
    work_.split_tiles.push_back(static_cast<int64_t>(i));
    for (int64_t b = tile.shared_blocks; b < Blocks(tile); ++b) work_.pieces.push_back({static_cast<int64_t>(i), b});
  }
  work_.shared.PlacePartials(work_.tiles, partial_floats);
  auto* partials =
      static_cast<float*>(Scratch(static_cast<size_t>(floats) * sizeof(float), &partials_, &partial_bytes_));
  const int64_t shared = work_.shared.pieces();
  const auto compute = [&](int64_t i) {
    if (i < shared) return work_.shared.Compute(kernels_, call, i, partials);
    const AttentionWork::Piece& piece = work_.pieces[static_cast<size_t>(i - shared)];
    const AttentionTile& tile = work_.tiles[static_cast<size_t>(piece.tile)];
    if (piece.block < 0) return kernels_.attend(call, tile);
    const int64_t offset = tile.partial + piece.block * tile.rows * tile.heads * partial_floats;
    kernels_.attend_block(call, tile, piece.block, partials + offset);
  };
  // A job has a bounded number of pieces.
  const int64_t pieces = shared + static_cast<int64_t>(work_.pieces.size());
  for (int64_t first = 0; first < pieces; first += ThreadPool::kMaxPieces) {
    const int64_t count = std::min(ThreadPool::kMaxPieces, pieces - first);
    pool_.Run(count, [&](int64_t i) { compute(first + i); });
  }
  const auto merge = [&](int64_t i) {
    const AttentionTile& tile = work_.tiles[static_cast<size_t>(work_.split_tiles[static_cast<size_t>(i)])];
    kernels_.merge_blocks(call, tile, partials + tile.partial);
  };
  if (floats < 65536) {
    for (size_t i = 0; i < work_.split_tiles.size(); ++i) merge(static_cast<int64_t>(i));
  } else {
    pool_.Run(static_cast<int64_t>(work_.split_tiles.size()), merge);
  }
}

void CpuBackend::Attention(const AttentionArgs& args) {
  CHECK(args.qkv.dtype == DType::kF32 && args.out.dtype == DType::kF32);
  CheckAttention(args, kMaxHeadDim);
  const AttentionCall call = MakeCall(args);
  if (!HasQueriesOnly(args)) StoreKeysAndValues(call, args.segments);
  if (args.heads == 0) return;
  MakeTiles(args);
  RunTiles(call);
}

}  // namespace ringside::cpu
