// Digests of the key and value rows for fixed inputs on every kind of device, next to the arithmetic version: stored
// caches are valid under one version, so rows must not change without it. All paths through the CPU's kernels give the
// same rows.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "engine/model/weights/digest.h"
#include "engine/model/weights/model_fingerprint.h"
#include "tests/engine/model/model_run.h"
#include "tests/kernels/devices.h"

namespace ringside {
namespace {

constexpr int64_t kRecordedVersion = 10;  // the arithmetic version of these digests
struct RecordedRows {
  std::string_view device;
  std::string_view digest;
};
constexpr RecordedRows kRecorded[] = {
    {.device = "cpu", .digest = "31ad3b65eaf91a776f90660efa87f7e8"},
    {.device = "cuda_bf16, NVIDIA H100 80GB HBM3", .digest = "bfbfca467f787c15ab9fb9dcc2333942"},
    {.device = "cuda_bf16_fixed, NVIDIA H100 80GB HBM3", .digest = "63da237581598be24575efacb7a71b38"},
    {.device = "cuda_bf16_unpacked, NVIDIA H100 80GB HBM3", .digest = "70634edbaedb1e24752b477ebf88ea11"},
    {.device = "cuda_f16, NVIDIA H100 80GB HBM3", .digest = "6c3567e1f41949e9545040a501a78e35"},
};

std::unique_ptr<Backend> MakeDeviceOrCpuPath(const std::string& name) {
  if (!name.starts_with("cpu_")) return testing::MakeDevice(name);
  auto made = MakeCpuBackend({.threads = 1, .instruction_set = name.substr(4)});
  return made.ok() ? std::move(*made) : nullptr;
}

/// Digest of the whole slab, layer by layer, after 40 tokens, in chunks, in a wrapped window. Unwritten rows are zero.
void AddRows(const std::string& model_path, Backend& backend, DType dtype, Digest* digest) {
  auto model = Model::Load(model_path, backend);
  ASSERT_TRUE(model.ok()) << model.status().ToString();
  OwnCache cache(**model, {4, 24, Eviction::kToken}, 16, dtype);
  RunAll(**model, cache.get(), GoldenIds(), 16);
  std::vector<std::byte> rows(static_cast<size_t>(cache->shape().slab_bytes()));
  backend.CopyToHost(rows.data(), cache->slab(), rows.size());
  backend.Synchronize();
  const KvShape& shape = cache->shape();
  for (int64_t layer = 0; layer < shape.layers; ++layer) {
    for (int64_t tile = 0; tile < shape.pinned_tiles + shape.ring_tiles; ++tile) {
      digest->AddBytes(rows.data() + shape.TileOffset(layer, tile, 0), static_cast<size_t>(shape.layer_tile_bytes()));
    }
  }
}

std::string DigestOfRows(Backend& backend) {
  Digest digest;
  for (const DType dtype : {backend.activation_dtype(), DType::kF16}) {
    for (const char* name : {"llama", "mistral", "qwen2", "qwen3", "gpt2", "gguf_f16/model.gguf",
                             "gguf_q8_0/model.gguf", "gguf_q4_0/model.gguf", "gguf_q4_1/model.gguf",
                             "gguf_q5_0/model.gguf", "gguf_q5_1/model.gguf", "gguf_k_quants/model.gguf"}) {
      AddRows(GoldenFolder(name), backend, dtype, &digest);
    }
  }
  std::string hex;
  for (const uint8_t byte : digest.Get()) {
    constexpr char kDigits[] = "0123456789abcdef";
    hex += {kDigits[byte >> 4], kDigits[byte & 15]};
  }
  return hex;
}

// Other GPU models use other kernel paths.
std::string KindOf(const std::string& device, const Backend& backend) {
  const std::string description = backend.Describe();  // its model comes first
  return device.starts_with("cpu_") ? "cpu" : device + ", " + description.substr(0, description.find(','));
}

class GoldenRows : public ::testing::TestWithParam<const char*> {};

// Without a recorded digest: skips, and prints the digest to record.
TEST_P(GoldenRows, ChangeOnlyWithTheArithmeticVersion) {
  const std::string device = GetParam();
  const std::unique_ptr<Backend> backend = MakeDeviceOrCpuPath(device);
  if (backend == nullptr) GTEST_SKIP() << "no " << device << " here";
  const std::string digest = DigestOfRows(*backend);
  const std::string kind = KindOf(device, *backend);
  const std::string record = "{.device = \"" + kind + "\", .digest = \"" + digest + "\"}";
  ASSERT_EQ(kArithmeticVersion, kRecordedVersion) << "record the rows of this version: " << record;
  const auto recorded = std::find_if(std::begin(kRecorded), std::end(kRecorded),
                                     [&](const RecordedRows& rows) { return rows.device == kind; });
  if (recorded == std::end(kRecorded)) GTEST_SKIP() << "nothing is recorded for this device: " << record;
  EXPECT_EQ(digest, recorded->digest) << "rows have changed: raise kArithmeticVersion and record " << record;
}

INSTANTIATE_TEST_SUITE_P(All, GoldenRows,
                         ::testing::Values("cpu_portable", "cpu_avx2", "cpu_avx_vnni", "cpu_avx512", "cpu_avx512_vnni",
                                           "cpu_amx", "cpu_neon", "cpu_neon_dotprod", "cpu_neon_i8mm", "cuda_bf16",
                                           "cuda_f16", "cuda_bf16_fixed", "cuda_bf16_unpacked"),
                         [](const auto& info) { return std::string(info.param); });

}  // namespace
}  // namespace ringside
