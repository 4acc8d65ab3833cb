// Stored caches: a header with a valid checksum, and a restore from it into a cache. Input: the header.
#include <cstring>
#include <numeric>
#include <utility>
#include <vector>

#include "cache/kv_pool.h"
#include "cache/snapshot.h"
#include "kernels/backend.h"
#include "session/journal/journal_format.h"
#include "tests/cache/whole_cache.h"
#include "tests/fuzz/fuzz_target.h"

namespace ringside {
namespace {

constexpr size_t kLengthAt = 12, kIdAt = 56, kCheckBytes = 8;
constexpr int64_t kMostBytes = 8 << 20;  // limit of the chunks tried
const SnapshotProof kProof;

constexpr StateShape kState{.layers = 2, .boundary_bytes = 24, .tail_row_bytes = 12, .slots = 2};

/// Caches of few rows, without and with recurrent state.
struct Device {
  std::unique_ptr<Backend> backend = std::move(MakeCpuBackend({.threads = 1}).value());
  KvPool pools[2] = {std::move(KvPool::Make(*backend, KvShape{2, 2, 8, DType::kF16, 2, 4}, 1).value()),
                     std::move(KvPool::Make(*backend, KvShape{2, 2, 8, DType::kF16, 2, 4, kState}, 1).value())};
};

Device& TheDevice() {
  static Device device;
  return device;
}

void SetLengthAndCheck(std::string& bytes) {
  if (bytes.size() < kLengthAt + 4 + kCheckBytes) return;
  const auto length = static_cast<uint32_t>(bytes.size());
  std::memcpy(bytes.data() + kLengthAt, &length, sizeof(length));
  const std::string_view content = std::string_view(bytes).substr(0, bytes.size() - kCheckBytes);
  const uint64_t check = journal_format::Checksum(content, {});
  std::memcpy(bytes.data() + content.size(), &check, sizeof(check));
}

void Restore(Snapshot snapshot) {
  if (snapshot.chunk_bytes() > kMostBytes) return;
  for (size_t i = 0; i < snapshot.chunks().size(); ++i) {
    const std::string zeros(static_cast<size_t>(snapshot.bytes_of(snapshot.chunks()[i])), '\0');
    const Status attached = snapshot.Attach(i, Blob::CopyOf(std::as_bytes(std::span(zeros))), false);
    Require(attached.ok(), attached.ToString());
  }
  Device& device = TheDevice();
  KvPool& pool = device.pools[snapshot.header().state.empty() ? 0 : 1];
  KvCache* cache = LendWhole(pool, {pool.shape().pinned_capacity(), 40});
  const Status restored = snapshot.Restore(*cache, *device.backend, kProof);
  Require(restored.ok() || restored.code() == StatusCode::kMismatch || restored.code() == StatusCode::kCorruption,
          restored.ToString());
  if (restored.ok()) Require(cache->ring().next() == snapshot.header().next, "a restored cache goes on where it was");
  pool.Release(cache);
}

}  // namespace

std::vector<std::string> Seeds() {
  Device& device = TheDevice();
  std::vector<std::string> seeds;
  for (const auto& [pool, tokens] : {std::pair(0, 0), {0, 1}, {0, 30}, {0, 100}, {1, 0}, {1, 64}, {1, 150}}) {
    KvCache* cache = LendWhole(device.pools[pool], {tokens == 1 ? 0 : 4, 40});
    std::memset(cache->slab(), 0, static_cast<size_t>(device.pools[pool].reserved_bytes(*cache)));
    for (int64_t i = 0; i < tokens; ++i) {
      if (i % 9 == 0) cache->ring().AddMessageStart(i);
      std::vector<StateWrite> writes;
      cache->Append(1, &writes);
    }
    std::vector<int32_t> ids(static_cast<size_t>(tokens));
    std::iota(ids.begin(), ids.end(), 0);
    Snapshot snapshot = Snapshot::Capture(*cache, *device.backend, kProof, ids, 0);
    snapshot.Seal();
    std::string header = snapshot.EncodeHeader();
    header.replace(kIdAt, 8, 8, '\1');  // it is random
    seeds.push_back(std::move(header));
    device.pools[pool].Release(cache);
  }
  return seeds;
}

}  // namespace ringside

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace ringside;
  std::string bytes(reinterpret_cast<const char*>(data), size);
  (void)Snapshot::Decode(std::as_bytes(std::span(bytes)));
  SetLengthAndCheck(bytes);
  (void)Snapshot::Decode(std::as_bytes(std::span(bytes)));
  Result<Snapshot> snapshot = Snapshot::DecodeHeader(std::as_bytes(std::span(bytes)));
  if (snapshot.ok()) Restore(std::move(*snapshot));
  return 0;
}
