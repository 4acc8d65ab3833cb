// The engine: one thread that admits turns, forms steps of prefill chunks and decode rows, runs the model, samples and
// emits; and that saves the caches of idle conversations to the tiers and takes them back. Everything here is
// thread-safe and never blocks. The contract of the thread is engine/ENGINE.md.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/status.h"
#include "cache/ring.h"
#include "cache/snapshot.h"
#include "cache/tiered_store.h"
#include "engine/sampling.h"
#include "engine/text/tokenizer.h"
#include "engine/token_sink.h"
#include "kernels/backend.h"

namespace ringside {

class Model;
struct ModelSpec;
struct StepPart;

using TimelineId = uint64_t;  // a conversation's timeline, chosen by the session layer, unique for the process
using TurnId = uint64_t;      // chosen by the session layer, unique for the process

struct EngineOptions {
  int64_t slots = 8;              // 0 = as many as fit, where the backend knows its free memory
  int64_t memory_len = 2048;      // largest window of a timeline, in tokens, pinned ones not counted
  int64_t pinned_max = 256;       // most pinned tokens of a timeline
  int64_t session_len = 1 << 20;  // most tokens of a timeline, counted exactly
  int64_t prefill_chunk = 256;    // most rows of one sequence in a step; a full ring may take fewer
  int64_t step_tokens = 256;      // most prefill rows of a step
  int64_t mixed_tokens = 64;      // most prefill rows of a step that also decodes
  int64_t rebuild_windows = 0;    // a lost cache is rebuilt from so many windows; 0 = as many as make it exact
  int64_t queue_limit = 256;      // turns waiting for a slot; one more is refused as overloaded
  DType kv_dtype = DType::kF16;
};

/// The prefill_chunk for a GPU: as many rows as a window of `memory_len` tokens takes and as 3e13 operations compute
/// (50 ms of an H200), a power of two from 2,048 to 8,192.
int64_t GpuPrefillChunk(const ModelSpec& spec, int64_t memory_len);

/// Where caches go that have no slot. Without tiers nothing is saved: what loses its slot is computed again.
struct EngineStorage {
  TieredStore* tiers = nullptr;  // outlives the engine
  Fingerprint fingerprint{};     // Model::fingerprint() of the network
  int64_t idle_ms = 60'000;      // a cache unused for so long is saved and gives its slot back
  /// How long a turn waits for a stored cache before it computes its own. 0 = by measured rates: it waits as long as
  /// computing would take, and does not begin to wait where reading should take longer.
  int64_t fetch_deadline_ms = 0;
  int64_t pinned_bytes = 0;  // host memory made fit for fast copies, where the backend can; in the background
};

class EngineLoop;

struct TurnRequest {
  TurnId turn = 0;
  TimelineId timeline = 0;  // not 0
  std::string owner;        // the conversation's name in the tiers, 1 to 128 bytes; "" = its cache is never saved
  /// True if earlier tokens of the conversation were computed before, by an earlier process perhaps: a cache that is
  /// not found was lost then, and is reported as recomputed.
  bool continues = false;
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

  uint64_t captures = 0, captured_bytes = 0;  // caches copied from their slots, and what had to be copied for them
  double capture_ms = 0;                      // of all captures: what they took of the engine's time
  uint64_t saves_refused = 0;                 // the tiers had too much to do; that cache was not saved
  uint64_t restores_host = 0, restores_disk = 0, restored_bytes = 0;
  double restore_ms = 0;                 // of all restores: from asking the tiers to the end of the copy into the slot
  uint64_t recomputed_instead = 0;       // stored caches not asked for because computing was estimated to be faster
  uint64_t fetches_late = 0;             // asked for, but the turn computed its own, or was over, before the answer
  uint64_t fetches_failed = 0;           // asked for, but lost, damaged or of another model or window
  double prefill_tokens_per_second = 0;  // measured, of recent steps; 0 = none yet
};

/// The network as the engine needs it, so that tests can run the engine on another one.
struct ForwardPass {
  Backend* backend = nullptr;
  int64_t layers = 0, kv_heads = 0, head_dim = 0, vocab = 0;
  int64_t position_limit = 0;  // learned positions: no token may stand at or after it; 0 = none
  std::function<void(std::span<const StepPart>, std::span<const TokenChoice>)> begin;  // as Model::Begin
  std::function<void(std::span<ChosenToken>)> finish;                                  // as Model::Finish
  bool runs_ahead =
      false;  // there is something to be gained from a second step that begins before the first is finished
};

class Engine {
 public:
  /// As below, on any network.
  static Result<std::unique_ptr<Engine>> Start(ForwardPass network, const Tokenizer& tokenizer,
                                               const EngineOptions& options, const EngineStorage& storage = {},
                                               const Clock& clock = SystemClock::Instance());
  /// Makes the pool and starts the thread. `model`, `tokenizer` and `storage.tiers` must outlive the engine.
  /// kOverloaded, naming the bytes, if the slots do not fit in memory. Everything the device is to hold is taken here:
  /// nothing is allocated on it while the engine serves.
  static Result<std::unique_ptr<Engine>> Start(Model& model, const Tokenizer& tokenizer, const EngineOptions& options,
                                               const EngineStorage& storage = {},
                                               const Clock& clock = SystemClock::Instance());
  /// Ends every turn with kCancelled and joins the thread. Saves nothing by itself: see SaveAll.
  ~Engine();

  /// With the slots that there are.
  const EngineOptions& options() const;
  /// Bytes of one slot.
  int64_t slot_bytes() const;

  /// Hands a turn to the engine. Ok = accepted: its sink gets exactly one OnEnd. kOverloaded = the inbox is full;
  /// kInvalidArgument = it can never run (too long, empty, bad parameter). A timeline runs one turn at a time: a second
  /// is kBusy at OnEnd.
  Status Submit(TurnRequest request);
  /// Ends a turn at the next step; unknown or finished turns are ignored.
  void Cancel(TurnId turn);

  using Done = std::function<void(const Status&)>;

  // These take effect in the order of the calls, of those above too. `done` may be null; it is called exactly once, on
  // the engine's thread, a storage thread or the caller's, and must not block.

  /// Forgets a timeline and its cache; a running turn of it is cancelled first. What the tiers have stays.
  void Close(TimelineId timeline);
  /// Saves the timeline's cache to the tiers, if its turns had an owner, and forgets the timeline. If it is answering,
  /// once it no longer is.
  void Park(TimelineId timeline);
  /// Closes the timeline (0 = none) and every other of this owner, then takes what the owner has out of every tier.
  /// `done`: Ok = gone for good; kIo, kUnavailable: the disk would not, but nothing returns it until a restart.
  void Erase(TimelineId timeline, std::string owner, Done done);
  /// Lets `to_owner` find what `from` holds in its slot, or else what the tiers have of `from_owner`, sharing the
  /// bytes. Either owner may be "" (there is nothing to share with, or of, an owner without a name). Best effort.
  void Fork(TimelineId from, TimelineId to, std::string from_owner, std::string to_owner);
  /// Brings what is on disk of this owner into memory, as far as there is room: its next turn will want it.
  void Prefetch(const std::string& owner);
  /// Saves every cache in a slot whose turns had an owner, those of running turns too, and moves everything that is in
  /// memory to disk: before a restart. `done`: Ok = all of it is on disk.
  void SaveAll(Done done);

  /// Where a cache of this owner is: slot, host, disk, or nowhere. A moment's truth.
  std::optional<CacheSource> Where(const std::string& owner) const;

  EngineStats stats() const;
  /// False from the first failure of the device on: the turns of that moment and all later ones end with kError.
  bool healthy() const;

 private:
  explicit Engine(std::unique_ptr<EngineLoop> loop);
  std::unique_ptr<EngineLoop> loop_;
};

}  // namespace ringside
