// Layout of a conversation's slab. A slab is one contiguous piece of device memory made of tiles of 16 positions:
// [tile][layer][kv head][K: d x 16, then V: 16 x d]. A tile's keys are stored dimension by dimension, so that one
// vector holds 16 keys and no sum crosses a lane; its values are stored token by token.
//
// Layers may differ in their heads (`varied`). In multi-head latent attention (DeepSeek-AI 2024) the values are a part
// of the keys and are stored once: a head's tile then has the keys alone, token by token: [K: 16 x d].
//
// Pinned position p < S is in tile p / 16. Ring position p >= S has ring index i = (p - S) mod R and is in tile
// PinnedTiles(S) + i / 16, lane i % 16. R is a multiple of 16, so a tile of the ring always holds 16 consecutive
// positions from S + a multiple of 16 on: which keys share a tile does not depend on R.
//
// Until the ring wraps around, a conversation occupies a prefix of its slab, and only that prefix needs memory.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "kernels/state_shape.h"
#include "kernels/tensor.h"

namespace ringside {

/// One layer's key and value heads.
struct KvLayer {
  int64_t kv_heads = 0, head_dim = 0;
  friend bool operator==(const KvLayer&, const KvLayer&) = default;
};

struct KvShape {
  static constexpr int64_t kTile = 16;

  int64_t layers = 0;                  // that store keys and values
  int64_t kv_heads = 0, head_dim = 0;  // of every layer; with `varied`, the largest of any
  DType dtype = DType::kF16;           // kF32, kF16, kBF16 or kF8E4M3 (saturating, no scale)
  int64_t pinned_tiles = 0;            // capacity for 16 * pinned_tiles pinned positions
  int64_t ring_tiles = 0;              // R = 16 * ring_tiles
  StateShape state;                    // before the first tile
  int64_t latent_dim = 0;              // values are the first latent_dim dimensions of the keys; 0: they are stored
  std::vector<KvLayer> varied;         // [layers], if layers differ; else empty

  int64_t pinned_capacity() const { return pinned_tiles * kTile; }
  int64_t ring_rows() const { return ring_tiles * kTile; }
  int64_t element_bytes() const { return StorageBytes(dtype, 1); }
  /// Bytes of one head's keys (or values) in one tile.
  int64_t half_tile_bytes() const { return kTile * head_dim * element_bytes(); }
  /// Dimensions of a value, of a layer whose keys have `key_dim`.
  int64_t ValueDim(int64_t key_dim) const { return latent_dim > 0 ? latent_dim : key_dim; }
  /// Bytes of one head of one tile, with keys of `key_dim` dimensions.
  int64_t HeadTileBytes(int64_t key_dim) const { return (latent_dim > 0 ? 1 : 2) * kTile * key_dim * element_bytes(); }
  /// Bytes of one layer of one tile: all heads' keys and values. REQUIRES: layers do not differ.
  int64_t layer_tile_bytes() const { return kv_heads * HeadTileBytes(head_dim); }
  KvLayer Layer(int64_t layer) const {
    return varied.empty() ? KvLayer{kv_heads, head_dim} : varied[static_cast<size_t>(layer)];
  }
  int64_t LayerTileBytes(int64_t layer) const { return Layer(layer).kv_heads * HeadTileBytes(Layer(layer).head_dim); }
  /// Byte offset of a layer in a tile.
  int64_t LayerOffset(int64_t layer) const {
    if (varied.empty()) return layer * layer_tile_bytes();
    int64_t bytes = 0;
    for (int64_t before = 0; before < layer; ++before) bytes += LayerTileBytes(before);
    return bytes;
  }
  /// Bytes of one tile, all layers.
  int64_t tile_bytes() const { return LayerOffset(layers); }
  int64_t slab_bytes() const { return state.bytes() + (pinned_tiles + ring_tiles) * tile_bytes(); }

  /// Number of tiles of `pinned` pinned positions: the tiles before the ring.
  static int64_t PinnedTiles(int64_t pinned) { return (pinned + kTile - 1) / kTile; }
  /// Bytes of the slab's prefix that the first `tokens` positions of a cache with S pinned ones occupy; positions
  /// already evicted from the ring do not matter.
  int64_t HeldBytes(int64_t tokens, int64_t pinned) const {
    if (tokens <= pinned) return TileBegin(PinnedTiles(tokens));
    return TileBegin(PinnedTiles(pinned) + PinnedTiles(std::min(tokens - pinned, ring_rows())));
  }
  /// Slot of position p in a cache with S pinned positions: tile = slot / 16, lane = slot % 16.
  int64_t Slot(int64_t p, int64_t pinned) const {
    return p < pinned ? p : PinnedTiles(pinned) * kTile + (p - pinned) % ring_rows();
  }
  /// Byte offset of a tile.
  int64_t TileBegin(int64_t tile) const { return state.bytes() + tile * tile_bytes(); }
  /// Byte offset of the keys of `head` in `tile` of `layer`; stored values follow the 16 keys.
  int64_t TileOffset(int64_t layer, int64_t tile, int64_t head) const {
    return TileBegin(tile) + LayerOffset(layer) + head * HeadTileBytes(Layer(layer).head_dim);
  }

  friend bool operator==(const KvShape&, const KvShape&) = default;
};

}  // namespace ringside
