#include "engine/engine.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>

#include "base/limits.h"
#include "engine/engine_loop.h"
#include "engine/model/model.h"

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

KvShape ShapeOf(const ForwardPass& network, const EngineOptions& options) {
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
Status WarmUp(Model& model, const KvShape& shape, const EngineOptions& options) {
  auto pool = KvPool::Make(model.backend(), shape, 1);
  if (!pool.ok()) return Status::Ok();  // Start will say what is missing
  const ModelSpec& spec = model.spec();
  const int64_t limit = spec.learned_positions ? spec.trained_context - 1 : INT64_MAX,
                most = std::min({options.prefill_chunk, options.memory_len, limit});
  const std::vector<TokenId> ids(static_cast<size_t>(most), 0);
  const TokenChoice greedy{.temperature = 0};
  ChosenToken chosen;
  const auto step = [&](KvCache* cache, int64_t rows) {
    const StepPart part{cache, std::span(ids).first(static_cast<size_t>(rows)), StepPart::Logits::kLast};
    model.Begin({&part, 1}, {&greedy, 1});
    model.Finish({&chosen, 1});
  };
  for (int64_t rows = 1; rows < 2 * most; rows *= 2) {
    KvCache* cache = pool->Acquire({0, options.memory_len, Eviction::kToken});
    step(cache, std::min(rows, most));
    if (rows == 1) step(cache, 1);
    pool->Release(cache);
  }
  return model.backend().status();
}

}  // namespace

Result<std::unique_ptr<Engine>> Engine::Start(ForwardPass network, const Tokenizer& tokenizer,
                                              const EngineOptions& options, const EngineStorage& storage,
                                              const Clock& clock) {
  const KvShape shape = ShapeOf(network, options);
  Backend& backend = *network.backend;
  backend.UseOnThisThread();
  EngineOptions made = options;
  ASSIGN_OR_RETURN(made.slots, CountSlots(backend, options, shape.slab_bytes()));
  const std::optional<size_t> free = backend.free_bytes();
  auto pool = KvPool::Make(backend, shape, made.slots);
  if (!pool.ok()) {
    return Overloaded(fmt::format("{} slots of {} bytes do not fit{}: {}", made.slots, shape.slab_bytes(),
                                  free ? fmt::format(" in {}", *free) : "", pool.status().message()));
  }
  auto loop = std::make_unique<EngineLoop>(std::move(network), tokenizer, made, std::move(*pool), storage, clock);
  return std::unique_ptr<Engine>(new Engine(std::move(loop)));
}

Result<std::unique_ptr<Engine>> Engine::Start(Model& model, const Tokenizer& tokenizer, const EngineOptions& options,
                                              const EngineStorage& storage, const Clock& clock) {
  const ModelSpec& spec = model.spec();
  model.backend().UseOnThisThread();
  ForwardPass network;
  network.backend = &model.backend();
  network.layers = spec.layers;
  network.kv_heads = spec.kv_heads;
  network.head_dim = spec.head_dim;
  network.vocab = spec.vocab;
  network.position_limit = spec.learned_positions ? spec.trained_context : 0;
  // A step has at most these rows. What they take leaves room for fewer slots, not for more rows.
  const int64_t slot_bytes = ShapeOf(network, options).slab_bytes();
  ASSIGN_OR_RETURN(const int64_t most_slots, CountSlots(model.backend(), options, slot_bytes));
  RETURN_IF_ERROR(model.Reserve(most_slots + std::max(options.step_tokens, options.mixed_tokens)));
  network.begin = [&model](std::span<const StepPart> parts, std::span<const TokenChoice> choices) {
    model.Begin(parts, choices);
  };
  network.finish = [&model](std::span<ChosenToken> chosen) { model.Finish(chosen); };
  network.runs_ahead = model.backend().runs_ahead();
  if (network.runs_ahead) RETURN_IF_ERROR(WarmUp(model, ShapeOf(network, options), options));
  return Start(std::move(network), tokenizer, options, storage, clock);
}

const EngineOptions& Engine::options() const { return loop_->options(); }
int64_t Engine::slot_bytes() const { return loop_->slot_bytes(); }
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
EngineStats Engine::stats() const { return loop_->stats(); }
bool Engine::healthy() const { return loop_->healthy(); }

}  // namespace ringside
