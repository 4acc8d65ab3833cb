#include "engine/engine.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>

#include "base/limits.h"
#include "engine/engine_loop.h"
#include "engine/model/model.h"
#include "kernels/slab_memory.h"

namespace ringside {

int64_t GpuPrefillChunk(const ModelSpec& spec, int64_t memory_len) {
  constexpr int64_t kLeast = 2048, kProductsOfAStep = 15'000'000'000'000;
  const int64_t rows = kProductsOfAStep / std::max<int64_t>(spec.layer_weights(), 1);
  const auto most =
      static_cast<uint64_t>(std::clamp(std::min(rows, memory_len), kLeast, limits::kMaxPrefillChunkTokens));
  return static_cast<int64_t>(std::bit_floor(most));
}

Engine::Engine(std::unique_ptr<EngineLoop> loop) : loop_(std::move(loop)) {}
Engine::~Engine() = default;

namespace {

constexpr int64_t kMostSlots = 4096;
constexpr int64_t kUsualTokens = 1024;  // of a cache: for so many of them there are slots, if nothing else is said

KvShape CacheShape(const NetworkShape& network, const EngineOptions& options) {
  return MakeKvShape(network.layers, network.kv_heads, network.head_dim, options.kv_dtype,
                     options.pinned_max + network.most_virtual_tokens, options.memory_len,
                     std::min(options.prefill_chunk, limits::kMaxFullRingChunkTokens));
}

/// Fills in how many slots there are and how much memory.
Status PlanMemory(const SlabMemory& memory, const KvShape& shape, EngineOptions* options) {
  const int64_t slab_bytes = KvPool::SlabBytes(memory, shape), asked = options->kv_bytes;
  const std::optional<size_t> free = memory.free_bytes();
  const int64_t least_slots = options->slots > 0 ? options->slots : EngineOptions().slots;
  if (asked == 0)
    options->kv_bytes = free && options->slots == 0 ? static_cast<int64_t>(*free) : least_slots * slab_bytes;
  if (free) options->kv_bytes = std::min(options->kv_bytes, static_cast<int64_t>(*free));
  if (options->kv_bytes < std::max(asked, slab_bytes)) {
    return Overloaded(fmt::format(
        "{} bytes for caches do not fit: {} are free on {} (--kv-cache-mb, --memory-len, "
        "--pinned-max)",
        std::max(asked, slab_bytes), free.value_or(static_cast<size_t>(options->kv_bytes)), memory.Describe()));
  }
  if (options->slots > 0) return Status::Ok();
  const int64_t usual = std::min(shape.HeldBytes(kUsualTokens, 0), slab_bytes);
  options->slots = free || asked > 0 ? std::clamp<int64_t>(options->kv_bytes / usual, 1, kMostSlots) : least_slots;
  return Status::Ok();
}

/// Prompts of every power of two of rows up to a chunk, and of a chunk, and a step behind the first, all forgotten
/// again: on a device that runs ahead kernels are loaded and chosen by their times when they are first used, which the
/// first conversations would wait for.
Status WarmUp(Network& network, const EngineOptions& options) {
  const NetworkShape shape = network.shape();
  auto pool = KvPool::Make(network.memory(), CacheShape(shape, options), 1);
  if (!pool.ok()) return Status::Ok();  // Start will say what is missing
  const int64_t limit = shape.position_limit > 0 ? shape.position_limit - 1 : INT64_MAX,
                most = std::min({options.prefill_chunk, options.memory_len, limit});
  const int64_t pinned = shape.encodes ? 1 : 0;  // an encoder's input
  const std::vector<TokenId> ids(static_cast<size_t>(most), 0);
  const TokenChoice greedy{.temperature = 0};
  ChosenToken chosen;
  const auto step = [&](KvCache* cache, int64_t rows) {
    const StepPart part{cache, std::span(ids).first(static_cast<size_t>(rows)), StepPart::Logits::kLast};
    network.Begin({&part, 1}, {&greedy, 1});
    network.Finish({&chosen, 1});
  };
  const auto read = [&](KvCache* cache) {
    const StepPart part{cache, std::span(ids).first(1), StepPart::Logits::kNone};
    network.Begin({&part, 1}, {});
    network.Finish({});
  };
  for (int64_t rows = 1; rows < 2 * most; rows *= 2) {
    KvCache* cache = pool->Acquire({pinned, options.memory_len, Eviction::kToken});
    if (pinned > 0) read(cache);
    step(cache, std::min(rows, most));
    if (rows == 1) step(cache, 1);
    pool->Release(cache);
  }
  return network.memory().status();
}

}  // namespace

Result<std::unique_ptr<Engine>> Engine::Start(Network& network, const Tokenizer& tokenizer,
                                              const EngineOptions& options, const EngineStorage& storage,
                                              const Clock& clock) {
  const KvShape shape = CacheShape(network.shape(), options);
  SlabMemory& memory = network.memory();
  memory.UseOnThisThread();
  EngineOptions made = options;
  RETURN_IF_ERROR(PlanMemory(memory, shape, &made));
  ASSIGN_OR_RETURN(KvPool pool, KvPool::Make(memory, shape, made.slots, made.kv_bytes));
  made.kv_bytes = pool.memory_bytes();
  pool.Prepare(shape.HeldBytes(kUsualTokens, 0));
  auto loop = std::make_unique<EngineLoop>(network, tokenizer, made, std::move(pool), storage, clock);
  return std::unique_ptr<Engine>(new Engine(std::move(loop)));
}

Result<std::unique_ptr<Engine>> Engine::Start(Model& model, const Tokenizer& tokenizer, const EngineOptions& options,
                                              const EngineStorage& storage, const Clock& clock) {
  Network& network = model;
  network.memory().UseOnThisThread();
  // A step has at most these rows. What they take leaves room for fewer slots, not for more rows.
  EngineOptions most = options;
  RETURN_IF_ERROR(PlanMemory(network.memory(), CacheShape(network.shape(), options), &most));
  const int64_t input = network.shape().encodes ? options.pinned_max : 0;  // read in one piece
  RETURN_IF_ERROR(model.Reserve(std::max(most.slots + options.step_tokens, input)));
  if (network.runs_ahead()) RETURN_IF_ERROR(WarmUp(network, options));
  return Start(network, tokenizer, options, storage, clock);
}

const EngineOptions& Engine::options() const { return loop_->options(); }
int64_t Engine::slot_bytes() const { return loop_->slot_bytes(); }
int64_t Engine::SlotBytes(const NetworkShape& network, const EngineOptions& options) {
  return CacheShape(network, options).slab_bytes();
}
Status Engine::Submit(TurnRequest request) { return loop_->Submit(std::move(request)); }
void Engine::Cancel(TurnId turn) { loop_->Cancel(turn); }
void Engine::Close(TimelineId timeline) { loop_->Close(timeline); }
void Engine::Park(TimelineId timeline) { loop_->Park(timeline); }
void Engine::Erase(TimelineId timeline, std::string owner, Done done) {
  loop_->Erase(timeline, std::move(owner), std::move(done));
}
void Engine::Fork(TimelineId from, TimelineId to, std::string from_owner, std::string to_owner, bool to_branch) {
  loop_->Fork(from, to, std::move(from_owner), std::move(to_owner), to_branch);
}
void Engine::Prefetch(const std::string& owner) { loop_->Prefetch(owner); }
void Engine::SaveAll(Done done) { loop_->SaveAll(std::move(done)); }
std::optional<CacheSource> Engine::Where(const std::string& owner) const { return loop_->Where(owner); }
void Engine::Ping(std::function<void()> alive) { loop_->Ping(std::move(alive)); }
EngineStats Engine::stats() const { return loop_->stats(); }
bool Engine::healthy() const { return loop_->healthy(); }
Status Engine::status() const { return loop_->status(); }

}  // namespace ringside
