#include "engine/engine.h"

#include <algorithm>

#include "engine/engine_loop.h"
#include "engine/model.h"

namespace ringside {

Engine::Engine(std::unique_ptr<EngineLoop> loop) : loop_(std::move(loop)) {}
Engine::~Engine() = default;

Result<std::unique_ptr<Engine>> Engine::Start(ForwardPass network, const Tokenizer& tokenizer,
                                              const EngineOptions& options, const EngineStorage& storage,
                                              const Clock& clock) {
  const KvShape shape = MakeKvShape(network.layers, network.kv_heads, network.head_dim, options.kv_dtype,
                                    options.pinned_max, options.memory_len, options.prefill_chunk);
  ASSIGN_OR_RETURN(KvPool pool, KvPool::Make(*network.backend, shape, options.slots));
  auto loop = std::make_unique<EngineLoop>(std::move(network), tokenizer, options, std::move(pool), storage, clock);
  return std::unique_ptr<Engine>(new Engine(std::move(loop)));
}

Result<std::unique_ptr<Engine>> Engine::Start(Model& model, const Tokenizer& tokenizer, const EngineOptions& options,
                                              const EngineStorage& storage, const Clock& clock) {
  const ModelSpec& spec = model.spec();
  ForwardPass network;
  network.backend = &model.backend();
  network.layers = spec.layers;
  network.kv_heads = spec.kv_heads;
  network.head_dim = spec.head_dim;
  network.vocab = spec.vocab;
  network.position_limit = spec.learned_positions ? spec.trained_context : 0;
  // Nothing is allocated while serving: a step has at most these rows.
  RETURN_IF_ERROR(model.Reserve(options.slots + std::max(options.step_tokens, options.mixed_tokens)));
  network.run = [&model](std::span<const StepPart> parts, std::span<const TokenChoice> choices,
                         std::span<ChosenToken> chosen) { model.Forward(parts, choices, chosen); };
  return Start(std::move(network), tokenizer, options, storage, clock);
}

const EngineOptions& Engine::options() const { return loop_->options(); }
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
