#include "engine/engine.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>

#include "base/limits.h"
#include "engine/engine_loop.h"
#include "engine/model/model.h"
#include "kernels/backend.h"

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

KvShape CacheShape(const NetworkShape& network, const EngineOptions& options) {
  return MakeKvShape(network.layers, network.kv_heads, network.head_dim, options.kv_dtype, options.pinned_max,
                     options.memory_len, std::min(options.prefill_chunk, limits::kMaxFullRingChunkTokens));
}

/// options.slots, or what the free memory takes.
Result<int64_t> CountSlots(const Backend& backend, const EngineOptions& options, int64_t slot_bytes) {
  if (options.slots > 0) return options.slots;
  const std::optional<size_t> free = backend.free_bytes();
  if (!free) return EngineOptions().slots;
  const int64_t slots = std::min(static_cast<int64_t>(*free) / slot_bytes, kMostSlots);
  if (slots > 0) return slots;
  return Overloaded(fmt::format("no slot fits: one takes {} bytes (--memory-len, --pinned-max), {} are free on {}",
                                slot_bytes, *free, backend.Describe()));
}

/// Prompts of every power of two of rows up to a chunk, and of a chunk, and a step behind the first, all forgotten
/// again: on a device that runs ahead kernels are loaded and chosen by their times when they are first used, which the
/// first conversations would wait for.
Status WarmUp(Network& network, const EngineOptions& options) {
  const NetworkShape shape = network.shape();
  auto pool = KvPool::Make(network.backend(), CacheShape(shape, options), 1);
  if (!pool.ok()) return Status::Ok();  // Start will say what is missing
  const int64_t limit = shape.position_limit > 0 ? shape.position_limit - 1 : INT64_MAX,
                most = std::min({options.prefill_chunk, options.memory_len, limit});
  const std::vector<TokenId> ids(static_cast<size_t>(most), 0);
  const TokenChoice greedy{.temperature = 0};
  ChosenToken chosen;
  const auto step = [&](KvCache* cache, int64_t rows) {
    const StepPart part{cache, std::span(ids).first(static_cast<size_t>(rows)), StepPart::Logits::kLast};
    network.Begin({&part, 1}, {&greedy, 1});
    network.Finish({&chosen, 1});
  };
  for (int64_t rows = 1; rows < 2 * most; rows *= 2) {
    KvCache* cache = pool->Acquire({0, options.memory_len, Eviction::kToken});
    step(cache, std::min(rows, most));
    if (rows == 1) step(cache, 1);
    pool->Release(cache);
  }
  return network.backend().status();
}

}  // namespace

Result<std::unique_ptr<Engine>> Engine::Start(Network& network, const Tokenizer& tokenizer,
                                              const EngineOptions& options, const EngineStorage& storage,
                                              const Clock& clock) {
  const KvShape shape = CacheShape(network.shape(), options);
  Backend& backend = network.backend();
  backend.UseOnThisThread();
  EngineOptions made = options;
  ASSIGN_OR_RETURN(made.slots, CountSlots(backend, options, shape.slab_bytes()));
  const std::optional<size_t> free = backend.free_bytes();
  auto pool = KvPool::Make(backend, shape, made.slots);
  if (!pool.ok()) {
    return Overloaded(fmt::format("{} slots of {} bytes do not fit{}: {}", made.slots, shape.slab_bytes(),
                                  free ? fmt::format(" in {}", *free) : "", pool.status().message()));
  }
  auto loop = std::make_unique<EngineLoop>(network, tokenizer, made, std::move(*pool), storage, clock);
  return std::unique_ptr<Engine>(new Engine(std::move(loop)));
}

Result<std::unique_ptr<Engine>> Engine::Start(Model& model, const Tokenizer& tokenizer, const EngineOptions& options,
                                              const EngineStorage& storage, const Clock& clock) {
  Network& network = model;
  network.backend().UseOnThisThread();
  // A step has at most these rows. What they take leaves room for fewer slots, not for more rows.
  const int64_t slot_bytes = CacheShape(network.shape(), options).slab_bytes();
  ASSIGN_OR_RETURN(const int64_t most_slots, CountSlots(network.backend(), options, slot_bytes));
  RETURN_IF_ERROR(model.Reserve(most_slots + options.step_tokens));
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
void Engine::Fork(TimelineId from, TimelineId to, std::string from_owner, std::string to_owner) {
  loop_->Fork(from, to, std::move(from_owner), std::move(to_owner));
}
void Engine::Prefetch(const std::string& owner) { loop_->Prefetch(owner); }
void Engine::SaveAll(Done done) { loop_->SaveAll(std::move(done)); }
std::optional<CacheSource> Engine::Where(const std::string& owner) const { return loop_->Where(owner); }
void Engine::Ping(std::function<void()> alive) { loop_->Ping(std::move(alive)); }
EngineStats Engine::stats() const { return loop_->stats(); }
bool Engine::healthy() const { return loop_->healthy(); }

}  // namespace ringside
