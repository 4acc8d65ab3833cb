// The engine: one thread that admits turns, forms steps of prefill chunks and decode rows, runs the model, samples and
// emits. Submit, Cancel and Close are thread-safe and never block. The contract of the thread is engine/ENGINE.md.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/status.h"
#include "cache/ring.h"
#include "engine/sampling.h"
#include "engine/token_sink.h"
#include "engine/tokenizer.h"
#include "kernels/backend.h"

namespace ringside {

class Model;
struct StepPart;

using TimelineId = uint64_t;  // a conversation's timeline, chosen by the session layer, unique for the process
using TurnId = uint64_t;      // chosen by the session layer, unique for the process

struct EngineOptions {
  int64_t slots = 8;
  int64_t memory_len = 2048;      // largest window of a timeline, in tokens, pinned ones not counted
  int64_t pinned_max = 256;       // most pinned tokens of a timeline
  int64_t session_len = 1 << 20;  // most tokens of a timeline, counted exactly
  int64_t prefill_chunk = 256;    // most rows of one sequence in a step
  int64_t step_tokens = 256;      // most prefill rows of a step
  int64_t mixed_tokens = 64;      // most prefill rows of a step that also decodes
  int64_t rebuild_windows = 0;    // a lost cache is rebuilt from so many windows; 0 = as many as make it exact
  int64_t queue_limit = 256;      // turns waiting for a slot; one more is refused as overloaded
  DType kv_dtype = DType::kF16;
};

class EngineLoop;

struct TurnRequest {
  TurnId turn = 0;
  TimelineId timeline = 0;
  /// The whole timeline before the answer: history and new input. The engine makes the cache equal it, reusing what it
  /// has: a longest common prefix in the slot, rolled back where the ring still allows, else rebuilt.
  std::vector<TokenId> tokens;
  std::vector<int64_t> message_starts;  // ascending positions of `tokens` at which messages begin
  RingWindow window;                    // pinned <= pinned_max, memory_len <= the engine's
  int64_t session_len = 0;              // <= the engine's; 0 = the engine's
  SamplingParams sampling;
  std::vector<std::string> stop_strings;
  std::vector<TokenId> stop_ids;  // end-of-turn tokens of the model included, unless ignored
  int64_t max_tokens = 0;         // new tokens at most; 0 = prefill only (warm-up), -1 = until session_len
  std::shared_ptr<TokenSink> sink;
};

struct EngineStats {
  int64_t slots = 0, slots_used = 0, turns_running = 0, turns_waiting = 0;
  uint64_t steps = 0, tokens_prefilled = 0, tokens_reused = 0, tokens_decoded = 0, tokens_evicted = 0;
  uint64_t rebuilds = 0, slots_taken = 0;  // slots taken from idle sequences
};

/// The network as the engine needs it, so that tests can run the engine on another one.
struct ForwardPass {
  Backend* backend = nullptr;
  int64_t layers = 0, kv_heads = 0, head_dim = 0, vocab = 0;
  int64_t position_limit = 0;  // learned positions: no token may stand at or after it; 0 = none
  std::function<void(std::span<const StepPart>, std::span<float>)> run;  // as Model::Forward
};

class Engine {
 public:
  /// As below, on any network.
  static Result<std::unique_ptr<Engine>> Start(ForwardPass network, const Tokenizer& tokenizer,
                                               const EngineOptions& options,
                                               const Clock& clock = SystemClock::Instance());
  /// Makes the pool and starts the thread. `model` and `tokenizer` must outlive the engine. kOverloaded if the slots
  /// do not fit in memory.
  static Result<std::unique_ptr<Engine>> Start(Model& model, const Tokenizer& tokenizer, const EngineOptions& options,
                                               const Clock& clock = SystemClock::Instance());
  /// Ends every turn with kCancelled and joins the thread.
  ~Engine();

  const EngineOptions& options() const;

  /// Hands a turn to the engine. Ok = accepted: its sink gets exactly one OnEnd. kOverloaded = the inbox is full;
  /// kInvalidArgument = it can never run (too long, empty, bad parameter). A timeline runs one turn at a time: a second
  /// is kBusy at OnEnd.
  Status Submit(TurnRequest request);
  /// Ends a turn at the next step; unknown or finished turns are ignored.
  void Cancel(TurnId turn);
  /// Forgets a timeline's cache; a running turn of it is cancelled first.
  void Close(TimelineId timeline);
  /// Copies the cache of `from` so that `to` finds it in a slot, as far as slots allow; best effort.
  void Fork(TimelineId from, TimelineId to);

  EngineStats stats() const;
  /// True until a step has failed for good (a sticky device error).
  bool healthy() const;

 private:
  explicit Engine(std::unique_ptr<EngineLoop> loop);
  std::unique_ptr<EngineLoop> loop_;
};

}  // namespace ringside
