// The snapshot format (cache/SNAPSHOT.md). The decoder treats its input as hostile.
#define XXH_STATIC_LINKING_ONLY  // declares XXH3
#include <xxhash.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <string_view>

#include "base/check.h"
#include "base/defect.h"
#include "cache/snapshot.h"

namespace ringside {
namespace {

constexpr std::string_view kMagic = "RSKVSNAP";
// The version is the first one plus the parts that the header has in addition.
constexpr uint32_t kVersion = 2, kWithState = 1, kWithLayers = 2, kLastVersion = kVersion + kWithState + kWithLayers;
constexpr int64_t kFar = int64_t{1} << 40;  // exclusive upper bound of a position
constexpr int64_t kMaxChunkBytes = int64_t{1} << 30;
constexpr size_t kCheckBytes = 8, kFrontBytes = 16;  // magic, version, length

class Writer {
 public:
  template <class T>
  void Put(T value) {
    for (size_t i = 0; i < sizeof(T); ++i) {
      out_.push_back(static_cast<char>(static_cast<std::make_unsigned_t<T>>(value) >> (8 * i)));
    }
  }
  void PutMany(const std::vector<int32_t>& values) {  // one memcpy: there may be a million
    static_assert(std::endian::native == std::endian::little);
    out_.append(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(int32_t));
  }
  void PutBytes(std::string_view bytes) { out_.append(bytes); }
  std::string& out() { return out_; }

 private:
  std::string out_;
};

/// Reads little-endian numbers; past the end it returns 0 and ok() becomes false.
class Reader {
 public:
  explicit Reader(std::span<const std::byte> bytes) : bytes_(bytes) {}
  template <class T>
  T Get() {
    std::make_unsigned_t<T> value = 0;
    if (left() < sizeof(T)) {
      ok_ = false;
      return 0;
    }
    for (size_t i = 0; i < sizeof(T); ++i) {
      value |= static_cast<std::make_unsigned_t<T>>(static_cast<std::make_unsigned_t<T>>(bytes_[at_ + i]) << (8 * i));
    }
    at_ += sizeof(T);
    return static_cast<T>(value);
  }
  /// REQUIRES: `values` has the size that GetCount returned.
  void GetMany(std::vector<int32_t>& values) {
    if (values.empty()) return;
    std::memcpy(values.data(), bytes_.data() + at_, values.size() * sizeof(int32_t));
    at_ += values.size() * sizeof(int32_t);
  }
  /// Number of elements of `bytes` bytes each that follow; 0 and not ok() if they do not fit in the rest.
  size_t GetCount(size_t bytes) {
    const auto count = Get<uint64_t>();
    if (count <= left() / bytes) return static_cast<size_t>(count);
    ok_ = false;
    return 0;
  }
  size_t left() const { return bytes_.size() - at_; }
  bool ok() const { return ok_; }

 private:
  std::span<const std::byte> bytes_;
  size_t at_ = 0;
  bool ok_ = true;
};

constexpr DType kTypes[] = {DType::kF32, DType::kF16, DType::kBF16, DType::kF8E4M3};  // index = number in a header

Status Bad(const char* what) { return Corruption(std::string("snapshot: ") + what); }

bool IsWithin(int64_t value, int64_t least, int64_t most) { return value >= least && value <= most; }

// REQUIRES: next and pinned are within bounds.
Status CheckState(const SnapshotHeader& header) {
  const StateShape& state = header.state;
  if (state.empty()) return Status::Ok();
  // No overflow: at most 2^12 * 2^30, and 2^12 * 2^6 * 2^24 = 2^42.
  if (!IsWithin(state.layers, 1, 4096) || !IsWithin(state.boundary_bytes, 1, 1 << 30) ||
      !IsWithin(state.tail_row_bytes, 1, 1 << 24)) {
    return Bad("impossible state shape");
  }
  if (header.replay_start > header.window.pinned) return Bad("a state after a shortened replay");
  int64_t before = 0;
  for (const int64_t boundary : header.boundaries) {
    if (boundary <= before || boundary % StateShape::kChunk != 0) return Bad("boundaries out of order");
    before = boundary;
  }
  if (before != StateShape::BoundaryBefore(header.next)) return Bad("no boundary before the next position");
  return Status::Ok();
}

// True if the state has at most `chunks` chunks.
bool StateFits(const SnapshotHeader& header, size_t chunks) {
  const auto parts = [&](int64_t bytes) {
    return static_cast<size_t>((bytes + header.chunk_bytes() - 1) / header.chunk_bytes());
  };
  if (parts(header.tail_bytes()) > chunks) return false;
  return header.boundaries.empty() || parts(header.state.slot_bytes()) <= chunks / header.boundaries.size();
}

Status ReadLayers(Reader& reader, SnapshotHeader* header) {
  header->latent_dim = reader.Get<int64_t>();
  header->varied.resize(reader.GetCount(2 * sizeof(int64_t)));
  for (auto& [kv_heads, head_dim] : header->varied) {
    kv_heads = reader.Get<int64_t>(), head_dim = reader.Get<int64_t>();
  }
  return header->latent_dim != 0 || !header->varied.empty() ? Status::Ok() : Bad("no list of layers");
}

Status CheckHeader(const SnapshotHeader& header) {
  constexpr auto within = IsWithin;
  if (std::find(std::begin(kTypes), std::end(kTypes), header.dtype) == std::end(kTypes)) return Bad("unknown dtype");
  const auto sound = [&](int64_t kv_heads, int64_t head_dim) {
    return within(kv_heads, 1, 4096) && within(head_dim, 1, 65536);
  };
  if (!within(header.layers, 1, 4096) || !sound(header.kv_heads, header.head_dim) ||
      !within(header.tiles_per_chunk, 1, 64) || !within(header.latent_dim, 0, header.head_dim)) {
    return Bad("impossible shape");
  }
  if (!header.varied.empty() && std::ssize(header.varied) != header.layers) return Bad("wrong number of layers");
  for (const auto& [kv_heads, head_dim] : header.varied) {
    if (!sound(kv_heads, head_dim) || header.latent_dim > head_dim) return Bad("impossible shape of a layer");
  }
  // No overflow: at most 2^12 * 2^6 * 2 * 2^12 * 2^4 * 2^16 * 2^2 = 2^53.
  if (header.tiles_per_chunk * header.tile_bytes() > kMaxChunkBytes) return Bad("chunks are too large");
  if (!within(header.proof.shards, 1, 4096) || !within(header.proof.shard, 0, header.proof.shards - 1)) {
    return Bad("impossible shard");
  }
  if (header.id == 0) return Bad("the id is 0");
  if (!within(header.window.pinned, 0, kFar) || !within(header.window.memory_len, 1, kFar))
    return Bad("impossible window");
  if (!within(header.next, 0, kFar) || !within(header.resident, header.window.pinned, kFar) ||
      !within(header.replay_start, 0, kFar)) {
    return Bad("impossible position");
  }
  if (static_cast<int64_t>(header.tokens.size()) != header.next) return Bad("wrong number of tokens");
  RETURN_IF_ERROR(CheckState(header));
  // Ring::Restore rejects every other impossible state.
  Ring ring(header.window, std::max(header.window.memory_len, header.next));
  RETURN_IF_ERROR(ring.Restore(header.next, header.resident, header.message_starts));
  if (ring.FirstLive(header.next) != header.first_live) return Bad("wrong first live position");
  return Status::Ok();
}

Status ReadState(Reader& reader, SnapshotHeader* header) {
  if (reader.Get<int64_t>() != StateShape::kChunk) return Mismatch("snapshot: another distance of boundaries");
  StateShape& state = header->state;
  for (int64_t* value : {&state.layers, &state.boundary_bytes, &state.tail_row_bytes}) *value = reader.Get<int64_t>();
  if (state.empty()) return Bad("no state");
  header->boundaries.resize(reader.GetCount(sizeof(int64_t)));
  for (int64_t& boundary : header->boundaries) boundary = reader.Get<int64_t>();
  return Status::Ok();
}

}  // namespace

ChunkHash HashOf(std::span<const std::byte> bytes) {
  const XXH128_hash_t hash = XXH3_128bits(bytes.data(), bytes.size());
  return {hash.high64, hash.low64};
}

void Snapshot::Seal() {
  for (SnapshotChunk& chunk : chunks_) {
    if (!chunk.hash) chunk.hash = HashOf(chunk.bytes.bytes());
  }
}

std::string Snapshot::EncodeHeader() const {
  Writer writer;
  writer.PutBytes(kMagic);
  const bool lists_layers = header_.latent_dim > 0 || !header_.varied.empty();
  writer.Put<uint32_t>(kVersion + (header_.state.empty() ? 0 : kWithState) + (lists_layers ? kWithLayers : 0));
  writer.Put<uint32_t>(0);  // placeholder for the length
  for (const uint8_t byte : header_.proof.fingerprint) writer.Put(byte);
  writer.Put(header_.proof.shard);
  writer.Put(header_.proof.shards);
  writer.Put(header_.id);
  writer.Put(static_cast<uint32_t>(std::find(std::begin(kTypes), std::end(kTypes), header_.dtype) - kTypes));
  writer.Put(static_cast<uint32_t>(header_.window.eviction));
  for (const int64_t value :
       {header_.layers, header_.kv_heads, header_.head_dim, header_.tiles_per_chunk, header_.window.pinned,
        header_.window.memory_len, header_.next, header_.first_live, header_.resident, header_.replay_start}) {
    writer.Put(value);
  }
  if (const StateShape& state = header_.state; !state.empty()) {
    for (const int64_t value : {StateShape::kChunk, state.layers, state.boundary_bytes, state.tail_row_bytes}) {
      writer.Put(value);
    }
    writer.Put(static_cast<uint64_t>(header_.boundaries.size()));
    for (const int64_t boundary : header_.boundaries) writer.Put(boundary);
  }
  writer.Put(static_cast<uint64_t>(header_.message_starts.size()));
  for (const int64_t start : header_.message_starts) writer.Put(start);
  writer.Put(static_cast<uint64_t>(header_.tokens.size()));
  writer.PutMany(header_.tokens);
  if (lists_layers) {
    writer.Put(header_.latent_dim);
    writer.Put(static_cast<uint64_t>(header_.varied.size()));
    for (const auto& [kv_heads, head_dim] : header_.varied) writer.Put(kv_heads), writer.Put(head_dim);
  }
  writer.Put(static_cast<uint64_t>(chunks_.size()));
  for (const SnapshotChunk& chunk : chunks_) {
    CHECK(chunk.hash.has_value());
    writer.Put(static_cast<uint32_t>(chunk.region));
    writer.Put(static_cast<uint32_t>(chunk.count));
    writer.Put(chunk.index);
    writer.Put(chunk.hash->low);
    writer.Put(chunk.hash->high);
  }
  std::string& out = writer.out();
  const auto length = static_cast<uint32_t>(out.size() + kCheckBytes);
  CHECK_EQ(static_cast<size_t>(length), out.size() + kCheckBytes);
  for (size_t i = 0; i < sizeof(length); ++i) out[kMagic.size() + 4 + i] = static_cast<char>(length >> (8 * i));
  writer.Put(static_cast<uint64_t>(XXH3_64bits(out.data(), out.size())));
  return std::move(out);
}

Result<Snapshot> Snapshot::DecodeHeader(std::span<const std::byte> bytes) {
  if (bytes.size() < kFrontBytes + kCheckBytes) return Bad("cut short");
  if (std::memcmp(bytes.data(), kMagic.data(), kMagic.size()) != 0) return Bad("not a snapshot");
  Reader front(bytes.subspan(kMagic.size()));
  const auto version = front.Get<uint32_t>();
  if (version < kVersion || version > kLastVersion) return Mismatch("snapshot: another format version");
  const auto length = front.Get<uint32_t>();
  if (length != bytes.size()) return Bad("wrong length");
  const auto body = bytes.first(bytes.size() - kCheckBytes);
  if (Reader(bytes.subspan(body.size())).Get<uint64_t>() != XXH3_64bits(body.data(), body.size())) {
    return Bad("the header's checksum does not match");
  }
  Reader reader(body.subspan(kFrontBytes));
  Snapshot out;
  SnapshotHeader& header = out.header_;
  for (uint8_t& byte : header.proof.fingerprint) byte = reader.Get<uint8_t>();
  header.proof.shard = reader.Get<int32_t>();
  header.proof.shards = reader.Get<int32_t>();
  header.id = reader.Get<uint64_t>();
  const auto dtype = reader.Get<uint32_t>(), eviction = reader.Get<uint32_t>();
  if (dtype >= std::size(kTypes)) return Bad("unknown dtype");
  if (eviction > static_cast<uint32_t>(Eviction::kToken)) return Bad("unknown eviction");
  header.dtype = kTypes[dtype];
  header.window.eviction = static_cast<Eviction>(eviction);
  for (int64_t* value :
       {&header.layers, &header.kv_heads, &header.head_dim, &header.tiles_per_chunk, &header.window.pinned,
        &header.window.memory_len, &header.next, &header.first_live, &header.resident, &header.replay_start}) {
    *value = reader.Get<int64_t>();
  }
  if (((version - kVersion) & kWithState) != 0) RETURN_IF_ERROR(ReadState(reader, &header));
  header.message_starts.resize(reader.GetCount(sizeof(int64_t)));
  for (int64_t& start : header.message_starts) start = reader.Get<int64_t>();
  header.tokens.resize(reader.GetCount(sizeof(int32_t)));
  reader.GetMany(header.tokens);
  if (((version - kVersion) & kWithLayers) != 0) RETURN_IF_ERROR(ReadLayers(reader, &header));
  constexpr size_t kEntryBytes = 32;
  const size_t chunks = reader.GetCount(kEntryBytes);
  if (!reader.ok() || reader.left() != chunks * kEntryBytes) return Bad("cut short");
  RETURN_IF_ERROR(CheckHeader(header));
  // The header determines the chunks; their number is bounded by that of the positions, checked above, and of the
  // state.
  if (!StateFits(header, chunks)) return Bad("wrong number of chunks");
  out.PlanChunks();
  if (out.chunks_.size() != chunks) return Bad("wrong number of chunks");
  for (SnapshotChunk& chunk : out.chunks_) {
    const auto region = reader.Get<uint32_t>(), count = reader.Get<uint32_t>();
    const auto index = reader.Get<int64_t>();
    if (region != static_cast<uint32_t>(chunk.region) || index != chunk.index || count != chunk.count) {
      return Bad("wrong chunk table");
    }
    const auto low = reader.Get<uint64_t>(), high = reader.Get<uint64_t>();
    chunk.hash = ChunkHash{high, low};
  }
  return out;
}

Status Snapshot::Attach(size_t index, Blob bytes, bool verify) {
  CHECK_LT(index, chunks_.size());
  SnapshotChunk& chunk = chunks_[index];
  if (static_cast<int64_t>(bytes.size()) != bytes_of(chunk)) return Bad("wrong size of a chunk");
  if (verify && !RINGSIDE_DEFECT("chunk_checksum_skipped") && chunk.hash != HashOf(bytes.bytes()))
    return Bad("a chunk's checksum does not match");
  chunk.bytes = std::move(bytes);
  return Status::Ok();
}

std::string Snapshot::Encode() const {
  CHECK(complete());
  std::string out = EncodeHeader();
  out.reserve(out.size() + static_cast<size_t>(chunk_bytes()));
  for (const SnapshotChunk& chunk : chunks_) {
    out.append(reinterpret_cast<const char*>(chunk.bytes.data()), chunk.bytes.size());
  }
  return out;
}

Result<Snapshot> Snapshot::Decode(std::span<const std::byte> bytes) {
  if (bytes.size() < kFrontBytes) return Bad("cut short");
  const auto length = Reader(bytes.subspan(kMagic.size() + 4)).Get<uint32_t>();
  if (length > bytes.size()) return Bad("cut short");
  ASSIGN_OR_RETURN(Snapshot out, DecodeHeader(bytes.first(length)));
  std::span<const std::byte> rest = bytes.subspan(length);
  if (static_cast<int64_t>(rest.size()) != out.chunk_bytes()) return Bad("wrong length");
  for (size_t i = 0; i < out.chunks_.size(); ++i) {
    const auto size = static_cast<size_t>(out.bytes_of(out.chunks_[i]));
    RETURN_IF_ERROR(out.Attach(i, Blob::CopyOf(rest.first(size))));
    rest = rest.subspan(size);
  }
  return out;
}

}  // namespace ringside
