#include "kernels/cpu/shared_prefix_tiles.h"

#include <algorithm>
#include <limits>

namespace ringside::cpu {

void SharedPrefixTiles::Build(const AttentionArgs& args, std::span<const int64_t> first_tiles, int64_t tiles_per_chunk,
                              std::span<AttentionTile> tiles) {
  rows_.clear();
  sources_.clear();
  tiles_.clear();
  first_rows_.clear();
  pieces_.clear();
  for (const PrefixGroup& group : PrefixGroupsOf(args)) AddGroup(group, first_tiles, tiles_per_chunk, tiles);
  for (size_t i = 0; i < tiles_.size(); ++i) tiles_[i].gathered = rows_.data() + first_rows_[i];
}

void SharedPrefixTiles::AddGroup(const PrefixGroup& group, std::span<const int64_t> first_tiles,
                                 int64_t tiles_per_chunk, std::span<AttentionTile> tiles) {
  const int64_t pinned_blocks = (group.pinned + kKeyBlock - 1) / kKeyBlock;
  const int64_t blocks = pinned_blocks + (group.end - group.pinned) / kKeyBlock;
  for (int64_t i = 0; blocks > 0 && i < tiles_per_chunk; ++i) {
    const size_t first_row = rows_.size();
    for (const size_t s : group.segments) {
      for (int64_t t = first_tiles[s] + i; t < first_tiles[s + 1]; t += tiles_per_chunk) {
        AttentionTile& tile = tiles[static_cast<size_t>(t)];
        tile.shared_blocks = blocks;
        for (int64_t r = 0; r < tile.rows; ++r) {
          rows_.push_back({.row = tile.row + r, .position = tile.position + r, .first_live = tile.first_live[r]});
          sources_.push_back({t, r});
        }
      }
    }
    AttentionTile tile = tiles[static_cast<size_t>(sources_[first_row].tile)];
    tile.slab = tile.history = static_cast<const uint8_t*>(group.slab);
    tile.first_own = std::numeric_limits<int64_t>::max();
    tile.pinned_blocks = pinned_blocks;
    tile.first_ring_block = 0;
    tile.ring_blocks = blocks - pinned_blocks;
    const auto first_tile = static_cast<int64_t>(tiles_.size());
    const auto rows = static_cast<size_t>(kMaxTileQueries / tile.heads);
    for (size_t r = first_row; r < rows_.size(); r += rows) {
      tile.rows = static_cast<int64_t>(std::min(rows, rows_.size() - r));
      tiles_.push_back(tile);
      first_rows_.push_back(r);
    }
    const auto count = static_cast<int64_t>(tiles_.size()) - first_tile;
    for (int64_t b = 0; b < blocks; ++b) pieces_.push_back({first_tile, count, b});
  }
}

void SharedPrefixTiles::PlacePartials(std::span<const AttentionTile> tiles, int64_t floats) {
  for (size_t i = 0; i < rows_.size(); ++i) {
    const AttentionTile& tile = tiles[static_cast<size_t>(sources_[i].tile)];
    rows_[i].partial = tile.partial + sources_[i].row * tile.heads * floats;
    rows_[i].block_floats = tile.rows * tile.heads * floats;
  }
}

void SharedPrefixTiles::Compute(const KernelTable& kernels, const AttentionCall& call, int64_t piece,
                                float* partials) const {
  const Piece& p = pieces_[static_cast<size_t>(piece)];
  for (int64_t i = p.first_tile; i < p.first_tile + p.tiles; ++i) {
    kernels.attend_block(call, tiles_[static_cast<size_t>(i)], p.block, partials);
  }
}

}  // namespace ringside::cpu
