// The engine: one thread that admits turns, forms batches of prefill chunks and decode rows, runs the model, samples
// and emits tokens, and swaps the caches of idle conversations to the tiers and back. Implemented in engine/loop/.
// engine/ENGINE.md is the contract of the thread. THREAD: any; no call blocks.
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

/// The prefill chunk for a GPU: the smaller of the rows of a full window and the rows that 3e13 operations compute (50
/// ms on an H200), as a power of two from 2,048 to 8,192.
int64_t GpuPrefillChunk(const ModelSpec& spec, int64_t memory_len);

/// Where caches without a slot go. Without tiers nothing is saved: an evicted cache is recomputed.
struct EngineStorage {
  TieredStore* tiers = nullptr;                        // must outlive the engine
  Fingerprint fingerprint{};                           // Model::fingerprint() of the network
  std::vector<Fingerprint> adapter_fingerprints = {};  // Model::adapter_fingerprints()
  const Fingerprint& FingerprintUnder(int adapter) const {
    return adapter == 0 ? fingerprint : adapter_fingerprints.at(static_cast<size_t>(adapter - 1));
  }
  int64_t idle_ms = 60'000;  // idle time after which a cache is saved and its slot freed
  /// When slots are scarce, a cache that is idle for this time is copied to the tiers in the background and keeps its
  /// slot, which can then be reclaimed at once. 0 = save only on eviction.
  int64_t write_back_ms = 0;
  /// Maximum time a turn waits for a stored cache before it recomputes. 0 = by measured rates: no longer than
  /// recomputation takes, and no wait at all if reading should take longer.
  int64_t fetch_deadline_ms = 0;
  int64_t pinned_bytes = 0;  // host memory pinned before the first turn, if the backend can
};

class EngineLoop;

class Engine {
 public:
  /// Allocates the pool and starts the thread. REQUIRES: `network`, `tokenizer` and `storage.tiers` outlive the engine.
  /// ERRORS: kOverloaded, with the bytes, if one whole window or the requested memory does not fit.
  static Result<std::unique_ptr<Engine>> Start(Network& network, const Tokenizer& tokenizer,
                                               const EngineOptions& options, const EngineStorage& storage = {},
                                               const Clock& clock = SystemClock::Instance());
  /// As above, for a model: reserves its workspace first and warms it up, so that nothing is allocated on its device
  /// while the engine serves.
  static Result<std::unique_ptr<Engine>> Start(Model& model, const Tokenizer& tokenizer, const EngineOptions& options,
                                               const EngineStorage& storage = {},
                                               const Clock& clock = SystemClock::Instance());
  /// Ends every turn with kCancelled and joins the thread. Saves nothing: see SaveAll.
  ~Engine();

  /// With the actual slots and memory.
  const EngineOptions& options() const;
  /// Bytes of a slot with a full window.
  int64_t slot_bytes() const;
  /// SlotBytes for a network, before an engine exists.
  static int64_t SlotBytes(const NetworkShape& network, const EngineOptions& options);

  /// Decides whether a turn would wait for too long (EngineOptions::max_wait_s), before any work is done for it.
  /// Callers ask once, before Submit, which does not. Takes constant time, apart from a search for the owner's cache.
  /// ERRORS: ServerOverload (base/refusals/server_overload.h).
  Status CheckWait(const TurnRequest& request);
  /// True if CheckWait would return Ok. Counts nothing.
  bool MayAdmit(const TurnRequest& request) const;
  /// Submits a turn. Ok = accepted: its sink gets exactly one OnEnd. A timeline runs one turn at a time; another ends
  /// with kBusy at OnEnd.
  /// ERRORS: kOverloaded = the inbox is full, or the tenant has its share of the queue (QueueShares); kInvalidArgument
  /// = it can never run (too long, empty, bad parameter).
  Status Submit(TurnRequest request);
  /// Ends a turn at the next step; unknown or finished turns are ignored.
  void Cancel(TurnId turn);

  using Done = std::function<void(const Status&)>;

  // The following calls take effect in order, also with respect to those above. `done` may be null; it is called
  // exactly once, on the engine's thread, a storage thread or the caller's, and must not block.

  /// Drops a timeline and its cache after cancelling its running turn. The tiers keep their copy.
  void Close(TimelineId timeline);
  /// Saves the timeline's cache to the tiers, if its turns had an owner, and drops the timeline; if a turn is running,
  /// when it ends.
  void Park(TimelineId timeline);
  /// Closes the timeline (0 = none) and every other one of this owner, then erases the owner's object from every tier.
  /// `done`: Ok = deleted for good; kIo, kUnavailable: the disk failed, but no call returns the object until a restart.
  void Erase(TimelineId timeline, std::string owner, Done done);
  /// Gives `to_owner` a copy of the cache that `from` has in its slot, or else of `from_owner`'s object in the tiers,
  /// sharing the bytes. Either owner may be "" (no cache to share). Best effort.
  void Fork(TimelineId from, TimelineId to, std::string from_owner, std::string to_owner);
  /// Loads this owner's object from disk into memory if there is room, ahead of its next turn.
  void Prefetch(const std::string& owner);
  /// For a restart: saves every cache that is in a slot and has an owner, also those of running turns, and writes the
  /// host tier to disk. `done`: Ok = all are on disk.
  void SaveAll(Done done);

  /// Location of this owner's cache: slot, host, disk, or nowhere. May be outdated on return.
  std::optional<CacheSource> Where(const std::string& owner) const;

  EngineStats stats() const;
  /// `alive` is called on the engine's thread, between two steps: once it has been, the thread is not stuck. Dropped if
  /// the engine ends first. If its device has failed meanwhile, so has the engine then.
  void Ping(std::function<void()> alive);
  /// False from the first failure of the device, or of a step, on: the turns of that moment and all later ones end with
  /// kError, and nothing is in a slot.
  bool healthy() const;
  /// Ok, or the failure.
  Status status() const;

 private:
  explicit Engine(std::unique_ptr<EngineLoop> loop);
  std::unique_ptr<EngineLoop> loop_;
};

}  // namespace ringside
