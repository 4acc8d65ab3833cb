// The models of the server in memory, and the engines of each: one, loaded at start, or those that --models-max and the
// memory allow, loaded on demand. A turn for a model that is not loaded waits; a thread loads the next model, and first
// unloads another one (swap_plan.h): its idle caches move to the tiers, from where the next turn of a session restores
// them. Clients may also ask for a load or an unload. Turns run only on loaded models, and a model with running turns
// is never unloaded. Owned by the App. THREAD: any. Calls do not block, except where stated.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <unordered_set>
#include <vector>

#include "base/status.h"
#include "session/turn/turn_engine.h"
#include "ws/app/app_storage.h"
#include "ws/content/served_model.h"
#include "ws/models/loaded_model.h"
#include "ws/models/model_status.h"
#include "ws/models/model_texts.h"
#include "ws/models/swap_plan.h"
#include "ws/models/waiting_turns.h"

namespace ringside {

class ModelPool final : public TurnEngine {
 public:
  /// `texts`: of a server that loads models on demand; null: Add is called once. REQUIRES: all outlive the pool.
  ModelPool(const ServerConfig& config, Processes& processes, Storage& storage, const ModelTexts* texts);
  /// Ends waiting turns with kCancelled and running ones as Engine does. Saves nothing: see SaveAll.
  ~ModelPool() override;

  /// Adds the only model of a server.
  void Add(std::unique_ptr<LoadedModel> model);

  // TurnEngine. A model's caches in slots are at its engines, all others in the tiers.
  /// Refuses turns of a loaded model only: others wait until theirs is loaded.
  Status CheckWait(const TurnRequest& request) override;
  /// As Engine::Submit; also kOverloaded if too many turns wait for models, and the failure if the turn's model could
  /// not be loaded a short time ago. A waiting turn whose model cannot be loaded ends with that error.
  Status Submit(TurnRequest request) override;
  void Cancel(TurnId turn) override;
  void Close(TimelineId timeline) override;
  void Park(TimelineId timeline) override;
  void Fork(TimelineId from, TimelineId to, const std::string& from_owner, const std::string& to_owner) override;
  void Erase(TimelineId timeline, const std::string& owner) override;
  void Prefetch(const std::string& owner) override;
  std::optional<CacheSource> Where(const std::string& owner) const override;

  /// Loads the model as a waiting turn of it would, or unloads it, and calls `done` when that is finished; now if the
  /// model is in that state. `done` may be called on any thread and under the pool's lock; it must not block.
  /// REQUIRES: for a load, ModelTexts::Open of the model has returned.
  /// ERRORS, by `done`: the failure of the load; kBusy (model_in_use) instead of an unload while turns of the model run
  /// or wait, or it is being loaded; kOverloaded if too many requests wait; kUnavailable if the pool ends before.
  void Change(ModelChange change, const std::string& name, Engine::Done done);

  /// As EngineFleet::SaveAll, of every loaded model. A swap in progress ends first.
  void SaveAll(Engine::Done done);
  /// As EngineFleet::Tick.
  void Tick();
  /// Calls `alive` once the engine with this number of each loaded model has answered (Engine::Ping).
  void Ping(size_t engine, const std::function<void()>& alive);
  /// Ok, or the failure of a loaded model's devices or engines.
  Status status() const;
  bool devices_ok() const;
  /// Sums over all models, with the counts of unloaded ones; `turns_waiting` includes turns that wait for a model.
  std::vector<FleetEngine> each() const;
  EngineStats stats() const;
  /// One per model that was named by a turn, by name.
  std::vector<ModelStatus> Models() const;
  /// The only model of a server.
  LoadedModel& only();

 private:
  class CountingSink;
  enum class State { kUnloaded, kLoading, kLoaded, kUnloading };
  struct Entry {
    State state = State::kUnloaded;
    std::unique_ptr<LoadedModel> model;        // also while unloading
    std::unordered_set<TimelineId> timelines;  // submitted since it was loaded
    int64_t bytes = 0;
    int64_t used_ns = 0, loaded_ns = 0;
    Status failure;  // of the last load
    int64_t failed_ns = 0;
    std::vector<Engine::Done> loads, unloads;  // requests that wait for the end of one
    int64_t asked_ns = 0;                      // arrival of the oldest of `loads`
    ModelStatus counts;
  };
  using Entries = std::map<std::string, Entry>;

  static int64_t NowNs();
  void Run(const std::stop_token& stop);
  // REQUIRES: the lock is held, for all below.
  void Poke();
  Entry& EntryOf(const std::string& model);
  bool Admits(const std::string& name, const Entry& entry) const;
  /// Submits to the engines. On an error `sink` was not called.
  Status SubmitTo(const std::string& name, Entry& entry, TurnRequest request);
  void EndWaiting(std::unique_lock<std::mutex>& lock, std::vector<TurnRequest> turns, FinishReason reason,
                  const Status& why);
  void AdmitWaiting(std::unique_lock<std::mutex>& lock);
  /// Starts a load or an unload, if there is one to start. Returns when to plan again.
  std::optional<int64_t> StartSwap(std::unique_lock<std::mutex>& lock);
  /// Ok if no turn and no request needs the model. ERRORS: kBusy (model_in_use).
  Status CheckUnused(const std::string& name, const Entry& entry) const;
  /// Since when a turn or a request waits for the model to be loaded.
  std::optional<int64_t> WantedNs(const std::string& name, const Entry& entry) const;
  /// Starts an unload that a request waits for; refuses those of models that are in use by now.
  bool StartAskedUnload();
  /// Calls all, and removes them.
  static void Finish(std::vector<Engine::Done>& asking, const Status& status);
  /// Ends turns of models that are too large for the memory.
  void RefuseTooLarge(std::unique_lock<std::mutex>& lock);
  void Fail(std::unique_lock<std::mutex>& lock, const std::string& name, Entry& entry, const Status& why);
  void StartJob(std::function<void()> job);
  void ForEachModel(const std::function<void(LoadedModel& model)>& use) const;

  // Jobs, one at a time, on a thread of their own, without the lock.
  void Load(const std::string& name, size_t loaded);
  void Unload(const std::string& name);
  Result<std::unique_ptr<LoadedModel>> LoadNow(const std::string& name, size_t loaded);
  /// Moves the caches of these timelines, all that the engines have, to the tiers.
  void SaveCaches(const std::string& name, EngineFleet& engines, const std::vector<TimelineId>& timelines);
  /// REQUIRES: no job runs; the lock is held.
  void SaveNow(Engine::Done done);
  void OnTurnEnd(const std::string& name);

  const ServerConfig config_;
  Processes& processes_;
  Storage& storage_;
  const ModelTexts* const texts_;
  mutable std::mutex mutex_;
  std::condition_variable_any changed_;
  Entries entries_;
  WaitingTurns waiting_;
  std::string held_;                   // the model whose new turns wait; "" = none
  std::vector<EngineStats> unloaded_;  // counts of unloaded models, by engine number
  bool poked_ = false;                 // something has changed since the thread looked
  bool job_running_ = false;
  std::vector<Engine::Done> saves_;  // SaveAll calls that wait for the job
  std::thread job_;
  std::jthread thread_;  // last member
};

}  // namespace ringside
