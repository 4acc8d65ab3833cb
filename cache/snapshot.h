// The off-device copy of a conversation's cache: the rows in logical order, the recurrent state, the state of the ring,
// and the proof that they fit. The only cache object that crosses threads: a move-only value whose chunks are shared
// and immutable. THREAD: Capture and Restore: engine; everything else: any. cache/SNAPSHOT.md describes the bytes, with
// an example.
//
// Chunks are runs of whole tiles (16 positions) of all layers, and parts of the recurrent state: its boundaries, and
// the tail after the last one. A save copies only the chunks that changed since its base snapshot, and shares the
// others with it, including older boundaries that the cache no longer has.
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

/// A digest of everything that affects the numbers: weights, configuration, tokenizer, template, rope, kernels.
using Fingerprint = std::array<uint8_t, 32>;

/// Identifies the model and the shard that the rows belong to.
struct SnapshotProof {
  Fingerprint fingerprint{};
  int32_t shard = 0, shards = 1;  // index of the head shard, and number of shards
  friend bool operator==(const SnapshotProof&, const SnapshotProof&) = default;
};

/// XXH3-128 of a chunk's bytes.
struct ChunkHash {
  uint64_t high = 0, low = 0;
  friend auto operator<=>(const ChunkHash&, const ChunkHash&) = default;
};

/// The parts of a cache, by their number in a header.
enum class SnapshotRegion : uint32_t { kRing = 0, kPinned = 1, kBoundary = 2, kTail = 3 };

struct SnapshotChunk {
  SnapshotRegion region = SnapshotRegion::kRing;
  // Tiles: covers [index * tiles_per_chunk, ... + count) of the region; count = tiles_per_chunk, fewer in the last
  // chunk. State: index * 64 is the boundary's position, or the start of the tail; count is the number of the part.
  int64_t index = 0;
  int64_t count = 0;
  std::optional<ChunkHash> hash;  // set by Seal
  Blob bytes;  // [tile][layer][head][K, V], or a part of [layer][boundary] or [layer][row]; empty if they are in a
               // store only

  bool has_tiles() const { return region == SnapshotRegion::kRing || region == SnapshotRegion::kPinned; }
  bool pinned() const { return region == SnapshotRegion::kPinned; }
  bool covers_same(const SnapshotChunk& other) const {
    return region == other.region && index == other.index && count == other.count;
  }
};

struct SnapshotHeader {
  SnapshotProof proof;
  uint64_t id = 0;  // unique to this capture
  DType dtype = DType::kF16;
  int64_t layers = 0, kv_heads = 0, head_dim = 0, tiles_per_chunk = 0;
  int64_t latent_dim = 0;       // as in KvShape
  std::vector<KvLayer> varied;  // as in KvShape
  RingWindow window;
  int64_t next = 0, first_live = 0, resident = 0;  // as in Ring; first_live is that of position `next`
  int64_t replay_start = 0;                        // ring positions before it were never computed
  StateShape state;                                // without slots; empty() if there are no recurrent layers
  std::vector<int64_t> boundaries;  // positions of the stored boundaries, ascending; the last is that before `next`
  std::vector<int64_t> message_starts;
  std::vector<int32_t> tokens;  // ids of positions 0 .. next - 1; compared with the transcript, never trusted

  /// Layout of a tile.
  KvShape shape() const {
    return {.layers = layers,
            .kv_heads = kv_heads,
            .head_dim = head_dim,
            .dtype = dtype,
            .latent_dim = latent_dim,
            .varied = varied};
  }
  int64_t tile_bytes() const { return shape().tile_bytes(); }
  int64_t chunk_positions() const { return tiles_per_chunk * KvShape::kTile; }
  /// Bytes of a full chunk: also of a part of the state, except for the last part.
  int64_t chunk_bytes() const { return tiles_per_chunk * tile_bytes(); }
  /// Rows of the tail: the tokens since the last boundary.
  int64_t tail_rows() const { return state.empty() ? 0 : next % StateShape::kChunk; }
  int64_t tail_bytes() const { return state.layers * tail_rows() * state.tail_row_bytes; }
  /// The largest position up to `to` at which a restored cache can continue (KvCache::Floor). REQUIRES: to <= next.
  int64_t Floor(int64_t to) const;
};

struct PendingCapture;
struct PendingRestore;
struct CaptureSize;

class Snapshot {
 public:
  Snapshot() = default;
  Snapshot(Snapshot&&) = default;
  Snapshot& operator=(Snapshot&&) = default;

  /// False while the cache lacks rows that its next token sees: in a branch, or in the first window of a shortened
  /// replay.
  static bool CanCapture(const KvCache& cache) {
    return cache.history() == nullptr && cache.ring().CanRollBack(cache.ring().next());
  }
  /// Starts an asynchronous copy of the cache's rows from the device. `tokens`: the ids of its ring().next() positions.
  /// `base`: the last snapshot that this cache was captured to or restored from; chunks that have not changed since are
  /// shared with it, with or without their bytes, and any other base is ignored. The cache records the result as its
  /// base and may be used at once.
  /// REQUIRES: CanCapture(cache).
  static PendingCapture BeginCapture(KvCache& cache, SlabMemory& memory, const SnapshotProof& proof,
                                     std::span<const int32_t> tokens, int64_t replay_start,
                                     const Snapshot* base = nullptr);
  /// Waits for the copies and returns the snapshot.
  static Snapshot FinishCapture(PendingCapture pending, SlabMemory& memory);
  /// BeginCapture and FinishCapture.
  static Snapshot Capture(KvCache& cache, SlabMemory& memory, const SnapshotProof& proof,
                          std::span<const int32_t> tokens, int64_t replay_start, const Snapshot* base = nullptr);

  /// Ok if the rows can be restored into a cache of this shape. ERRORS: kMismatch if anything but the number of tiles
  /// differs, or the window does not fit.
  Status CheckFits(const SnapshotProof& proof, const KvShape& shape) const;
  /// Restores ring, rows and base into `cache`, of any ring size that CheckFits accepts. The cache may be used at once;
  /// keep the result until the copies are done. If it has more boundaries than the cache has slots, the one before
  /// `wanted` is among the restored ones (StateMarks::turn). `present`: bytes of the slab that already have these rows
  /// and are not copied. ERRORS: kMismatch as CheckFits; kCorruption if no ring can be in this state or bytes are
  /// missing. The cache is empty after an error.
  Result<PendingRestore> BeginRestore(KvCache& cache, SlabMemory& memory, const SnapshotProof& proof,
                                      int64_t wanted = 0, SlabRange present = {}) const;
  /// BeginRestore, then waits for the copies.
  Status Restore(KvCache& cache, SlabMemory& memory, const SnapshotProof& proof) const;

  const SnapshotHeader& header() const { return header_; }
  /// Identity of the rows; a snapshot from the tiers has none until it is set (SavedOrigins).
  const RowOrigins& origins() const { return origins_; }
  void set_origins(const RowOrigins& origins) { origins_ = origins; }
  const std::vector<SnapshotChunk>& chunks() const { return chunks_; }
  /// Bytes of all chunks, present or not.
  int64_t chunk_bytes() const;
  /// True if every chunk's bytes are here.
  bool complete() const;
  /// Another handle to the same chunks.
  Snapshot Share() const;

  /// Computes the missing hashes, which reads every byte of those chunks.
  void Seal();
  /// The header with the chunk table and a checksum. REQUIRES: Seal() was called.
  std::string EncodeHeader() const;
  /// Parses a header as hostile input. The chunks have no bytes yet. ERRORS: kCorruption (damaged, impossible),
  /// kMismatch (another version).
  static Result<Snapshot> DecodeHeader(std::span<const std::byte> bytes);
  /// Sets the bytes of chunk `chunk`. `verify` false skips the hash, for bytes that never left this process. ERRORS:
  /// kCorruption, and nothing changes, if the bytes are not the sealed ones.
  Status Attach(size_t chunk, Blob bytes, bool verify = true);

  /// Serializes header and chunks into one string, for export; and back. REQUIRES: Seal() was called and complete().
  std::string Encode() const;
  static Result<Snapshot> Decode(std::span<const std::byte> bytes);

  int64_t bytes_of(const SnapshotChunk& chunk) const;

 private:
  friend CaptureSize SizeOfCapture(const KvCache& cache, const SlabMemory& memory, const Snapshot* base);

  /// Sets the header's fields of the cache's shape, window and position.
  void SetShape(const KvCache& cache, const SlabMemory& memory);
  void PlanChunks();
  /// Appends the chunks of the state.
  void PlanStateChunks();
  /// Boundaries that a capture stores: those in slots, and older ones of its base, bounded by the bytes of the rows.
  static std::vector<int64_t> BoundariesToStore(const KvCache& cache, const Snapshot* base);
  /// True if the base has this chunk of the cache, unchanged.
  bool IsUnchanged(const KvCache& cache, const SnapshotChunk& chunk, const Snapshot& base) const;
  /// Records which bytes of the slab's state a chunk has. False: the cache has no slot for its boundary.
  bool PlanState(const KvCache& cache, const SnapshotChunk& chunk, std::byte* host, std::vector<SlabRun>* runs) const;
  void PlanSave(const KvCache& cache, SnapshotChunk& chunk, std::vector<SlabRun>* runs) const;
  void ClearDeadLanes(SnapshotChunk& chunk) const;
  /// `merged` receives the one tile that no chunk holds in the required form.
  Status PlanLoad(const KvCache& cache, Blob* merged, std::vector<SlabRun>* runs) const;
  /// Bytes of one ring tile; null if no chunk has it.
  const std::byte* RingTile(int64_t tile) const;
  /// Ring tiles with saved positions: [first, last].
  struct TileRange {
    int64_t first = 0, last = -1;
  };
  TileRange RingTiles(int64_t resident) const;

  SnapshotHeader header_;
  std::vector<SnapshotChunk> chunks_;
  RowOrigins origins_;  // of the captured rows; not stored
};

/// A snapshot whose copies from the device are in flight.
struct PendingCapture {
  Snapshot snapshot;
  std::vector<size_t> copied;  // indices of the copied chunks
  CopyTicket ticket = 0;
};

/// Keeps the sources of a restore's copies alive.
struct PendingRestore {
  Snapshot snapshot;
  Blob merged;
  CopyTicket ticket = 0;
};

/// Bytes of a full chunk of a snapshot, for caches of this shape in this memory.
int64_t SnapshotChunkBytes(const KvShape& shape, const SlabMemory& memory);

/// Estimated size of a capture; `all_bytes` may be slightly low.
struct CaptureSize {
  int64_t chunks = 0;     // copied chunks, each into one block of host memory
  int64_t all_bytes = 0;  // whole snapshot, chunks shared with its base included
};
CaptureSize SizeOfCapture(const KvCache& cache, const SlabMemory& memory, const Snapshot* base);

/// The XXH3-128 of these bytes.
ChunkHash HashOf(std::span<const std::byte> bytes);

}  // namespace ringside
