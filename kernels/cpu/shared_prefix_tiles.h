// Attention tiles of shared prefixes: the key blocks of a prefix that serve rows of several segments. All rows of a
// group compute a key block one after another, so that it is read from memory once, and up to kMaxTileQueries queries
// share each loaded key and value. Partial results go where the rows' own tiles merge them, in block order: a row's
// bits do not depend on its group. Owned by the backend. THREAD: one.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "kernels/cpu/kernel_table.h"
#include "kernels/prefix_groups.h"

namespace ringside::cpu {

class SharedPrefixTiles {
 public:
  /// `first_tiles`: for each segment its first tile in `tiles`, then the number of tiles. A segment's tiles repeat
  /// every `tiles_per_chunk` for its next rows. Sets AttentionTile::shared_blocks.
  void Build(const AttentionArgs& args, std::span<const int64_t> first_tiles, int64_t tiles_per_chunk,
             std::span<AttentionTile> tiles);
  /// Sets the places of partial results, once AttentionTile::partial is known. A partial result has `floats` floats.
  void PlacePartials(std::span<const AttentionTile> tiles, int64_t floats);

  /// Number of pieces of work.
  int64_t pieces() const { return static_cast<int64_t>(pieces_.size()); }
  void Compute(const KernelTable& kernels, const AttentionCall& call, int64_t piece, float* partials) const;

 private:
  struct Piece {
    int64_t first_tile, tiles, block;
  };
  struct Source {
    int64_t tile, row;  // of the segment's own tile
  };
  void AddGroup(const PrefixGroup& group, std::span<const int64_t> first_tiles, int64_t tiles_per_chunk,
                std::span<AttentionTile> tiles);

  std::vector<GatheredRow> rows_;
  std::vector<Source> sources_;  // of each row
  std::vector<AttentionTile> tiles_;
  std::vector<size_t> first_rows_;  // of each tile
  std::vector<Piece> pieces_;
};

}  // namespace ringside::cpu
