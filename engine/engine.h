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
#include "cache/snapshot.h"
#include "cache/store/tiered_store.h"
#include "engine/engine_options.h"
#include "engine/text/tokenizer.h"
#include "engine/turn_request.h"

namespace ringside {

class Model;
class Network;
struct ModelSpec;
struct NetworkShape;

/// The prefill_chunk for a GPU: as many rows as a window of `memory_len` tokens takes and as 3e13 operations compute
/// (50 ms of an H200), a power of two from 2,048 to 8,192.
int64_t GpuPrefillChunk(const ModelSpec& spec, int64_t memory_len);

/// Where caches go that have no slot. Without tiers nothing is saved: what loses its slot is computed again.
struct EngineStorage {
  TieredStore* tiers = nullptr;                        // outlives the engine
  Fingerprint fingerprint{};                           // Model::fingerprint() of the network
  std::vector<Fingerprint> adapter_fingerprints = {};  // Model::adapter_fingerprints()
  const Fingerprint& FingerprintUnder(int adapter) const {
    return adapter == 0 ? fingerprint : adapter_fingerprints.at(static_cast<size_t>(adapter - 1));
  }
  int64_t idle_ms = 60'000;  // a cache unused for so long is saved and gives its slot back
  /// Where slots are getting scarce, a cache unused for so long is copied to the tiers in the background and stays
  /// where it is: its slot can be had at once then. 0 = not before its slot is wanted.
  int64_t write_back_ms = 0;
  /// How long a turn waits for a stored cache before it computes its own. 0 = by measured rates: it waits as long as
  /// computing would take, and does not begin to wait where reading should take longer.
  int64_t fetch_deadline_ms = 0;
  int64_t pinned_bytes = 0;  // host memory made fit for fast copies before the first turn, where the backend can
};

class EngineLoop;

class Engine {
 public:
  /// Makes the pool and starts the thread. `network`, `tokenizer` and `storage.tiers` must outlive the engine.
  /// kOverloaded, naming the bytes, if one whole window, or the memory asked for, does not fit.
  static Result<std::unique_ptr<Engine>> Start(Network& network, const Tokenizer& tokenizer,
                                               const EngineOptions& options, const EngineStorage& storage = {},
                                               const Clock& clock = SystemClock::Instance());
  /// The same for a model, whose memory for steps is taken first and which is run warm: nothing is allocated on its
  /// device while the engine serves.
  static Result<std::unique_ptr<Engine>> Start(Model& model, const Tokenizer& tokenizer, const EngineOptions& options,
                                               const EngineStorage& storage = {},
                                               const Clock& clock = SystemClock::Instance());
  /// Ends every turn with kCancelled and joins the thread. Saves nothing by itself: see SaveAll.
  ~Engine();

  /// With the slots and the memory that there are.
  const EngineOptions& options() const;
  /// Bytes of one slot whose window is full.
  int64_t slot_bytes() const;
  /// What one would take, before there is an engine.
  static int64_t SlotBytes(const NetworkShape& network, const EngineOptions& options);

  /// Hands a turn to the engine. Ok = accepted: its sink gets exactly one OnEnd. kOverloaded = the inbox is full, or
  /// the account has its share of the queue (QueueShares); kInvalidArgument = it can never run (too long, empty, bad
  /// parameter). A timeline runs one turn at a time: a second is kBusy at OnEnd.
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
  /// `alive` is called on the engine's thread, between two steps: once it has been, the thread is not stuck. Dropped if
  /// the engine ends first. If its device has failed meanwhile, so has the engine then.
  void Ping(std::function<void()> alive);
  /// False from the first failure of the device, or of a step, on: the turns of that moment and all later ones end with
  /// kError, and nothing is in a slot.
  bool healthy() const;
  /// Ok, or what failed.
  Status status() const;

 private:
  explicit Engine(std::unique_ptr<EngineLoop> loop);
  std::unique_ptr<EngineLoop> loop_;
};

}  // namespace ringside
