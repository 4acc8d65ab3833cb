// A conversation's cache off its device: the rows in logical order, what the ring must know to go on with them, and the
// proof that they fit. The one cache object that crosses threads: a move-only value whose chunks are shared and do not
// change. Capture and Restore belong to the engine's thread; everything else to any. The bytes are described, with an
// example, in cache/SNAPSHOT.md.
//
// Chunks are runs of whole tiles (16 positions) of all layers. A save copies only the chunks that changed since the
// snapshot it is based on, and shares the others with it.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/status.h"
#include "cache/blob.h"
#include "cache/kv_cache.h"
#include "kernels/slab_run.h"

namespace ringside {

class SlabMemory;

/// A digest of everything that changes the numbers: weights, configuration, tokenizer, template, rope, kernels.
using Fingerprint = std::array<uint8_t, 32>;

/// Whose rows these are.
struct SnapshotProof {
  Fingerprint fingerprint{};
  int32_t shard = 0, shards = 1;  // which part of the heads, of how many
  friend bool operator==(const SnapshotProof&, const SnapshotProof&) = default;
};

/// XXH3-128 of a chunk's bytes.
struct ChunkHash {
  uint64_t high = 0, low = 0;
  friend auto operator<=>(const ChunkHash&, const ChunkHash&) = default;
};

struct SnapshotChunk {
  bool pinned = false;  // of the pinned tiles, or of the ring's
  int64_t index = 0;    // covers tiles [index * tiles_per_chunk, ... + tiles) of its region, counted from its start
  int64_t tiles = 0;    // tiles_per_chunk; fewer in the last one
  std::optional<ChunkHash> hash;  // set by Seal
  Blob bytes;                     // [tile][layer][head][K, V]; empty if they are in a store only
};

struct SnapshotHeader {
  SnapshotProof proof;
  uint64_t id = 0;  // of this very capture
  DType dtype = DType::kF16;
  int64_t layers = 0, kv_heads = 0, head_dim = 0, tiles_per_chunk = 0;
  RingWindow window;
  int64_t next = 0, first_live = 0, resident = 0;  // as Ring has them; first_live of position next
  int64_t replay_start = 0;                        // ring positions before it were never computed
  std::vector<int64_t> message_starts;
  std::vector<int32_t> tokens;  // ids of positions 0 .. next - 1, evicted ones included: to be compared, not believed

  int64_t layer_tile_bytes() const { return 2 * kv_heads * KvShape::kTile * head_dim * StorageBytes(dtype, 1); }
  int64_t tile_bytes() const { return layers * layer_tile_bytes(); }
  int64_t chunk_positions() const { return tiles_per_chunk * KvShape::kTile; }
};

struct PendingCapture;
struct PendingRestore;

class Snapshot {
 public:
  Snapshot() = default;
  Snapshot(Snapshot&&) = default;
  Snapshot& operator=(Snapshot&&) = default;

  /// False while the cache lacks rows that its next token sees: a branch, or one in the first window of a shortened
  /// replay.
  static bool CanCapture(const KvCache& cache) {
    return cache.history() == nullptr && cache.ring().CanRollBack(cache.ring().next());
  }
  /// Begins to copy the rows of `cache`, which CanCapture, from the device. `tokens` are the ids of its ring().next()
  /// positions. With `base`, a snapshot that this cache was captured to or restored from last, chunks that have not
  /// changed since are shared with it (whether it has their bytes or not); another base is ignored. The cache remembers
  /// the result as its base, and may go on at once.
  static PendingCapture BeginCapture(KvCache& cache, SlabMemory& memory, const SnapshotProof& proof,
                                     std::span<const int32_t> tokens, int64_t replay_start,
                                     const Snapshot* base = nullptr);
  /// Waits for the copies, if they are not done, and returns what was captured.
  static Snapshot FinishCapture(PendingCapture pending, SlabMemory& memory);
  /// Both.
  static Snapshot Capture(KvCache& cache, SlabMemory& memory, const SnapshotProof& proof,
                          std::span<const int32_t> tokens, int64_t replay_start, const Snapshot* base = nullptr);

  /// Ok if the rows can be restored into a cache of this shape: kMismatch if anything but the numbers of tiles differs,
  /// or the window does not fit.
  Status CheckFits(const SnapshotProof& proof, const KvShape& shape) const;
  /// Makes `cache`, of any ring size that CheckFits takes, what was captured: ring, rows, base. The cache may be used
  /// at once, what is returned must be kept until the copies are done. kMismatch as CheckFits; kCorruption if no ring
  /// can be in this state or bytes are missing; the cache is then empty.
  Result<PendingRestore> BeginRestore(KvCache& cache, SlabMemory& memory, const SnapshotProof& proof) const;
  /// The same, and returns when the copies are done.
  Status Restore(KvCache& cache, SlabMemory& memory, const SnapshotProof& proof) const;

  const SnapshotHeader& header() const { return header_; }
  const std::vector<SnapshotChunk>& chunks() const { return chunks_; }
  /// Bytes of all chunks, present or not.
  int64_t chunk_bytes() const;
  /// True if every chunk's bytes are here.
  bool complete() const;
  /// Another handle on the same chunks.
  Snapshot Share() const;

  /// Computes the hashes that are missing. Reads every byte of those chunks.
  void Seal();
  /// The header with the chunk table, sealed by a checksum. Seal() must have been called.
  std::string EncodeHeader() const;
  /// Reads a header as hostile input: kCorruption (damaged, impossible), kMismatch (another version). The chunks come
  /// without bytes.
  static Result<Snapshot> DecodeHeader(std::span<const std::byte> bytes);
  /// Gives chunk i its bytes: kCorruption, and nothing changed, if they are not those that were sealed. Bytes that
  /// never left this process's memory need not be hashed again (`verify` false).
  Status Attach(size_t chunk, Blob bytes, bool verify = true);

  /// Header and chunks as one piece, for export; and back. Seal() must have been called; complete() must hold.
  std::string Encode() const;
  static Result<Snapshot> Decode(std::span<const std::byte> bytes);

  int64_t bytes_of(const SnapshotChunk& chunk) const { return chunk.tiles * header_.tile_bytes(); }

 private:
  void PlanChunks();
  void PlanSave(const KvCache& cache, SnapshotChunk& chunk, std::vector<SlabRun>* runs) const;
  void ClearForeignLanes(SnapshotChunk& chunk) const;
  /// `merged` gets the bytes that no chunk has as they are wanted.
  Status PlanLoad(const KvCache& cache, Blob* merged, std::vector<SlabRun>* runs) const;
  /// The bytes of one tile of the ring; null if no chunk has it.
  const std::byte* RingTile(int64_t tile) const;
  /// Tiles of the ring that hold saved positions: [first, last].
  struct TileRange {
    int64_t first = 0, last = -1;
  };
  TileRange RingTiles(int64_t resident) const;

  SnapshotHeader header_;
  std::vector<SnapshotChunk> chunks_;
};

/// A snapshot whose copies from the device have begun.
struct PendingCapture {
  Snapshot snapshot;
  std::vector<size_t> copied;  // chunks
  CopyTicket ticket = 0;
};

/// What the copies of a restore read.
struct PendingRestore {
  Snapshot snapshot;
  Blob merged;
  CopyTicket ticket = 0;
};

/// Bytes of a chunk of a cache of this shape that this memory saves, the last one of a region apart.
int64_t SnapshotChunkBytes(const KvShape& shape, const SlabMemory& memory);

/// The size of a capture of this cache; `all_bytes` may be a little less.
struct CaptureSize {
  int64_t chunks = 0;     // to be copied, each into one block of host memory
  int64_t all_bytes = 0;  // of the snapshot, chunks shared with its base included
};
CaptureSize SizeOfCapture(const KvCache& cache, const SlabMemory& memory, const Snapshot* base);

/// The XXH3-128 of these bytes.
ChunkHash HashOf(std::span<const std::byte> bytes);

}  // namespace ringside
