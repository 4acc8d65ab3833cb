#include "engine/slot_plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <limits>

#include "base/limits.h"
#include "cache/kv_pool.h"
#include "kernels/half_tiles.h"
#include "kernels/slab_memory.h"

namespace ringside {
namespace {

constexpr int64_t kMaxDefaultSlots = 4096;  // default limit

}  // namespace

KvShape CacheShape(const NetworkShape& network, const EngineOptions& options) {
  KvShape shape = MakeKvShape(
      network.layers, network.kv_heads, network.head_dim, options.kv_dtype,
      options.pinned_max + network.max_virtual_tokens, options.memory_len,
      std::max(std::min(options.prefill_chunk, limits::kMaxFullRingChunkTokens), network.whole_image_tokens));
  shape.latent_dim = network.latent_dim;
  shape.varied = network.varied;
  shape.state = network.state;
  if (!shape.state.empty()) shape.state.slots = options.state_slots;
  return shape;
}

int64_t MaxSlots(const NetworkShape& network, const KvShape& shape, int64_t slab_bytes) {
  const int64_t heads = network.layers * network.kv_heads;
  const int64_t of_device = network.max_heads > 0 ? network.max_heads : heads;
  const int64_t half_tiles = slab_bytes / shape.half_tile_bytes() + 1;
  return std::max<int64_t>(1, kMaxHalfTiles / ((half_tiles * of_device + heads - 1) / heads));
}

void FitWindow(const SlabMemory& memory, const NetworkShape& network, EngineOptions* options) {
  if (!options->fits_window) return;
  constexpr int64_t kLeast = 16;
  int64_t bytes = options->kv_bytes > 0 ? options->kv_bytes : std::numeric_limits<int64_t>::max();
  if (const auto free = memory.free_bytes()) bytes = std::min(bytes, static_cast<int64_t>(*free));
  const KvShape shape = CacheShape(network, *options);
  if (KvPool::SlabBytes(memory, shape) <= bytes) return;
  const int64_t page = memory.page_bytes(shape.slab_bytes());
  const int64_t tiles = std::max<int64_t>(bytes / page * page - shape.state.bytes(), 0) / shape.tile_bytes();
  const int64_t rows = (tiles - shape.pinned_tiles) * KvShape::kTile;
  const int64_t fitting = rows - (shape.ring_rows() - options->memory_len);  // a chunk goes into the ring, too
  // In coarse steps: stored caches match only an equal window, and free memory varies slightly between starts.
  const auto whole = static_cast<uint64_t>(std::max(fitting, kLeast));
  const auto step = static_cast<int64_t>(std::max<uint64_t>(std::bit_floor(whole) / 16, 1));
  options->memory_len = static_cast<int64_t>(whole) / step * step;
}

Status PlanSlots(const SlabMemory& memory, const NetworkShape& network, EngineOptions* options) {
  const KvShape shape = CacheShape(network, *options);
  const int64_t slab_bytes = KvPool::SlabBytes(memory, shape);
  if (options->fits_window && options->slots > 0) {
    options->kv_bytes = std::min(options->kv_bytes, options->slots * slab_bytes);  // no more than the slots can use
  }
  const int64_t asked = options->kv_bytes;
  const int64_t most_slots = MaxSlots(network, shape, slab_bytes);
  const std::optional<size_t> free = memory.free_bytes();
  const int64_t least_slots = options->slots > 0 ? options->slots : EngineOptions().slots;
  if (asked == 0)
    options->kv_bytes = free && options->slots == 0 ? static_cast<int64_t>(*free) : least_slots * slab_bytes;
  if (free) options->kv_bytes = std::min(options->kv_bytes, static_cast<int64_t>(*free));
  if (options->kv_bytes < std::max(asked, slab_bytes)) {
    EngineOptions fitting = *options;
    fitting.fits_window = true;
    fitting.kv_bytes = 0;
    FitWindow(memory, network, &fitting);
    const std::string advice =
        asked > slab_bytes ? "a lower --kv-cache-mb" : fmt::format("--memory-len {} or less", fitting.memory_len);
    return Overloaded(fmt::format(
        "{} bytes for caches do not fit next to the weights: {} are free on {}; set {}, a lower --pinned-max, or "
        "--kv-cache-dtype fp8, or choose a smaller model",
        std::max(asked, slab_bytes), free.value_or(static_cast<size_t>(options->kv_bytes)), memory.Describe(), advice));
  }
  if (options->slots == 0) {
    const int64_t usual = std::min(shape.HeldBytes(EngineOptions::kTypicalTokens, 0), slab_bytes);
    options->slots =
        free || asked > 0 ? std::clamp<int64_t>(options->kv_bytes / usual, 1, kMaxDefaultSlots) : least_slots;
  }
  options->slots = std::min(options->slots, most_slots);
  return Status::Ok();
}

}  // namespace ringside
