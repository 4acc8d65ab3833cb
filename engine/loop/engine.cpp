#include "engine/engine.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>

#include "base/limits.h"
#include "base/log.h"
#include "engine/loop/engine_loop.h"
#include "engine/model/model.h"
#include "engine/slot_plan.h"
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

/// Runs prompts of each power of two of rows up to a chunk, and of a whole chunk, each followed by a decode step, and
/// discards them. A GPU loads kernels, and selects some by timing, on first use; without the warm-up the first
/// conversations would wait for that.
Status WarmUp(Network& network, const EngineOptions& options) {
  const NetworkShape shape = network.shape();
  auto pool = KvPool::Make(network.memory(), CacheShape(shape, options), 1);
  if (!pool.ok()) return Status::Ok();  // Start reports the error
  const int64_t limit = shape.position_limit > 0 ? shape.position_limit - 1 : INT64_MAX,
                most = std::min({options.prefill_chunk, options.memory_len, limit});
  const int64_t pinned = shape.encodes ? 1 : 0;  // an encoder's input
  const std::vector<TokenId> ids(static_cast<size_t>(most), 0);
  const RowSamplingParams greedy{.temperature = 0};
  SampledToken chosen;
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
    const RingWindow window{pinned, options.memory_len, Eviction::kToken};
    KvCache* cache = pool->Lend(window);
    RETURN_IF_ERROR(pool->Grow(cache, pool->BytesFor(window, pinned + std::min(rows, most) + 1)));
    if (pinned > 0) read(cache);
    step(cache, std::min(rows, most));
    if (rows == 1) step(cache, 1);
    pool->Release(cache);
  }
  return network.memory().status();
}

/// With chunks and steps that take a whole image.
EngineOptions WithWholeImages(const NetworkShape& shape, EngineOptions options) {
  options.prefill_chunk = std::max(options.prefill_chunk, shape.whole_image_tokens);
  options.step_tokens = std::max(options.step_tokens, shape.whole_image_tokens);
  return options;
}

}  // namespace

Result<std::unique_ptr<Engine>> Engine::Start(Network& network, const Tokenizer& tokenizer,
                                              const EngineOptions& options, const EngineStorage& storage,
                                              const Clock& clock) {
  SlabMemory& memory = network.memory();
  memory.MakeCurrent();
  EngineOptions made = WithWholeImages(network.shape(), options);
  FitWindow(memory, network.shape(), &made);
  const KvShape shape = CacheShape(network.shape(), made);
  RETURN_IF_ERROR(PlanSlots(memory, network.shape(), &made));
  if (made.slots == MaxSlots(network.shape(), shape, KvPool::SlabBytes(memory, shape))) {
    LogInfo("{} slots: the device has no addresses for more windows of {} tokens (--memory-len)", made.slots,
            made.memory_len);
  }
  ASSIGN_OR_RETURN(KvPool pool, KvPool::Make(memory, shape, made.slots, made.kv_bytes));
  made.kv_bytes = pool.memory_bytes();
  pool.Prepare(shape.HeldBytes(EngineOptions::kTypicalTokens, 0));
  auto loop = std::make_unique<EngineLoop>(network, tokenizer, made, std::move(pool), storage, clock);
  return std::unique_ptr<Engine>(new Engine(std::move(loop)));
}

Result<std::unique_ptr<Engine>> Engine::Start(Model& model, const Tokenizer& tokenizer, const EngineOptions& options,
                                              const EngineStorage& storage, const Clock& clock) {
  Network& network = model;
  network.memory().MakeCurrent();
  // Upper bound of the rows in a step. Their workspace leaves room for fewer slots, never for more rows.
  EngineOptions most = WithWholeImages(network.shape(), options);
  FitWindow(network.memory(), network.shape(), &most);
  RETURN_IF_ERROR(PlanSlots(network.memory(), network.shape(), &most));
  const int64_t input = network.shape().encodes ? options.pinned_max : 0;  // computed in one chunk
  RETURN_IF_ERROR(model.Reserve(std::max(most.slots + most.step_tokens, input)));
  EngineOptions fitted = options;
  FitWindow(network.memory(), network.shape(), &fitted);  // into the memory that the workspace leaves
  if (network.runs_ahead()) RETURN_IF_ERROR(WarmUp(network, fitted));
  return Start(network, tokenizer, options, storage, clock);
}

const EngineOptions& Engine::options() const { return loop_->options(); }
int64_t Engine::slot_bytes() const { return loop_->slot_bytes(); }
int64_t Engine::SlotBytes(const NetworkShape& network, const EngineOptions& options) {
  return CacheShape(network, options).slab_bytes();
}
Status Engine::CheckWait(const TurnRequest& request) { return loop_->CheckWait(request); }
bool Engine::MayAdmit(const TurnRequest& request) const { return loop_->MayAdmit(request); }
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
Status Engine::status() const { return loop_->status(); }

}  // namespace ringside
