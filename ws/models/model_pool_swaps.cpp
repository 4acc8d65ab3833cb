// The pool's loads and unloads, and its reports.
#include <pthread.h>

#include <algorithm>
#include <chrono>
#include <future>
#include <utility>

#include "base/log.h"
#include "session/model_source.h"
#include "ws/models/model_pool.h"

namespace ringside {
namespace {

// Time for which a loaded model keeps accepting turns while those of another model wait.
constexpr int64_t kSliceNs = 5'000'000'000;
constexpr std::chrono::seconds kLongestSave{60};
constexpr std::chrono::milliseconds kSaveCheck{1};

double Seconds(int64_t ns) { return static_cast<double>(ns) * 1e-9; }

/// The counts of an engine that is gone.
EngineStats WithoutGauges(EngineStats stats) {
  stats.slots = stats.slots_used = stats.turns_running = stats.turns_waiting = 0;
  stats.kv_bytes = stats.kv_bytes_used = stats.kv_bytes_shared = stats.unsaved = stats.unsaved_bytes = 0;
  stats.prefill_tokens_per_second = stats.prompt_wait_s = 0;
  return stats;
}

/// Waits until every message sent to the engines before this call was handled.
void AwaitEngines(EngineFleet& engines) {
  for (size_t i = 0; i < engines.size(); ++i) {
    const auto done = std::make_shared<std::promise<void>>();
    std::future<void> handled = done->get_future();
    engines.engine(i).Ping([done] { done->set_value(); });
    handled.wait_for(kLongestSave);
  }
}

}  // namespace

void ModelPool::Fail(std::unique_lock<std::mutex>& lock, const std::string& name, Entry& entry, const Status& why) {
  const auto opened = texts_->Find(name);
  const std::string reason = opened == nullptr ? why.message() : WithoutPath(why.message(), opened->config.model, name);
  entry.failure = Status(StatusCode::kUnavailable, "The model '" + name + "' could not be loaded: " + reason, "model",
                         kModelLoadFailed);
  entry.failed_ns = NowNs();
  entry.counts.failure = reason;
  ++entry.counts.load_failures;
  LogError("models: {} could not be loaded: {}", name, why.message());
  Finish(entry.loads, entry.failure);
  EndWaiting(lock, waiting_.PopAll(name), FinishReason::kError, entry.failure);
}

void ModelPool::RefuseTooLarge(std::unique_lock<std::mutex>& lock) {
  const int64_t most = ModelsMemoryOf(config_).all;
  for (auto& [name, entry] : entries_) {
    if (entry.state != State::kUnloaded || !WantedNs(name, entry)) continue;
    const auto opened = texts_->Find(name);
    if (opened != nullptr) entry.bytes = opened->bytes;
    if (entry.bytes <= most) continue;
    Fail(lock, name, entry,
         InvalidArgument(std::to_string(entry.bytes >> 20) + " MiB of weights and caches exceed the " +
                         std::to_string(most >> 20) + " MiB for models (--models-memory-mb, --kv-cache-mb)"));
  }
}

std::optional<int64_t> ModelPool::StartSwap(std::unique_lock<std::mutex>& lock) {
  RefuseTooLarge(lock);
  if (StartAskedUnload()) return std::nullopt;
  std::vector<std::string> names;
  std::vector<SwapModel> models;
  size_t loaded = 0;
  for (const auto& [name, entry] : entries_) {
    names.push_back(name);
    loaded += entry.state == State::kLoaded ? 1 : 0;
    models.push_back({.loaded = entry.state == State::kLoaded,
                      .running = entry.counts.running,
                      .waits_ns = WantedNs(name, entry),
                      .used_ns = entry.used_ns,
                      .loaded_ns = entry.loaded_ns,
                      .bytes = entry.bytes});
  }
  const SwapLimits limits{.models = config_.models_max, .bytes = ModelsMemoryOf(config_).all, .slice_ns = kSliceNs};
  const SwapPlan plan = PlanSwap(models, limits, NowNs());
  held_ = plan.held ? names[*plan.held] : "";
  if (plan.load) {
    entries_[names[*plan.load]].state = State::kLoading;
    StartJob([this, name = names[*plan.load], loaded] { Load(name, loaded); });
  } else if (plan.unload) {
    entries_[names[*plan.unload]].state = State::kUnloading;
    StartJob([this, name = names[*plan.unload]] { Unload(name); });
  }
  return plan.again_ns;
}

void ModelPool::StartJob(std::function<void()> job) {
  job_running_ = true;
  if (job_.joinable()) job_.join();  // it has ended, but for its return
  job_ = std::thread([this, job = std::move(job)] {
    pthread_setname_np(pthread_self(), "model swap");
    job();
    const std::lock_guard lock(mutex_);
    job_running_ = false;
    for (Engine::Done& done : std::exchange(saves_, {})) SaveNow(std::move(done));
    Poke();
  });
}

Result<std::unique_ptr<LoadedModel>> ModelPool::LoadNow(const std::string& name, size_t loaded) {
  const auto opened = texts_->Find(name);
  if (opened == nullptr) return Unavailable("its text was not read");
  ServerConfig config = opened->config;
  // Each engine takes a share of the device's free memory, which the loaded models have already reduced.
  if (config.cuda)
    config.gpu.memory_utilization /= static_cast<double>(config_.models_max) - static_cast<double>(loaded);
  std::vector<ModelCopy> copies;
  RETURN_IF_ERROR(LoadedModel::LoadWeights(config, processes_, &copies));
  const Model& model = *copies.front().model;
  if (static_cast<int64_t>(model.tokenizer_data().tokens.size()) != opened->text.tokenizer->vocab_size() ||
      model.chat_template() != opened->text.chat_template) {
    return Unavailable("its files were replaced while the server runs; restart it");
  }
  ASSIGN_OR_RETURN(auto made, LoadedModel::Start(config, &copies, opened->text, opened->engine, storage_));
  if (made->engines().options().memory_len < opened->engine.memory_len) {
    return Unavailable("the memory left has room for a window of " +
                       std::to_string(made->engines().options().memory_len) + " tokens only; set --memory-len");
  }
  return made;
}

void ModelPool::Load(const std::string& name, size_t loaded) {
  const int64_t start_ns = NowNs();
  LogInfo("models: loading {}", name);
  Result<std::unique_ptr<LoadedModel>> made = LoadNow(name, loaded);
  std::unique_lock lock(mutex_);
  Entry& entry = entries_[name];
  if (!made.ok()) {
    entry.state = State::kUnloaded;
    return Fail(lock, name, entry, made.status());
  }
  entry.model = std::move(*made);
  entry.bytes = entry.model->bytes();
  entry.state = State::kLoaded;
  entry.failure = Status::Ok();
  entry.counts.failure.clear();
  entry.used_ns = entry.loaded_ns = NowNs();
  entry.counts.load_seconds += Seconds(NowNs() - start_ns);
  ++entry.counts.loads;
  Finish(entry.loads, Status::Ok());
  LogInfo("models: {} is loaded, in {:.2f} s", name, Seconds(NowNs() - start_ns));
}

void ModelPool::SaveCaches(const std::string& name, EngineFleet& engines, const std::vector<TimelineId>& timelines) {
  // Caches without room in memory go to the disk, at its pace, before they leave their slots.
  const EngineStats now = engines.stats();
  if (storage_.tiers().host_room() < now.kv_bytes_used + now.kv_bytes_shared) {
    const auto saved = std::make_shared<std::promise<void>>();
    std::future<void> done = saved->get_future();
    engines.SaveAll([saved](const Status&) { saved->set_value(); });
    done.wait_for(kLongestSave);
  }
  for (const TimelineId timeline : timelines) engines.Park(timeline);
  const int64_t end_ns = NowNs() + std::chrono::nanoseconds(kLongestSave).count();
  AwaitEngines(engines);
  while (engines.healthy() && engines.stats().slots_used > 0) {
    if (NowNs() > end_ns) {
      LogWarning("models: {} caches of {} were not saved in time and will be recomputed", engines.stats().slots_used,
                 name);
      return;
    }
    std::this_thread::sleep_for(kSaveCheck);
    AwaitEngines(engines);
  }
}

void ModelPool::Unload(const std::string& name) {
  const int64_t start_ns = NowNs();
  EngineFleet* engines = nullptr;
  std::vector<TimelineId> timelines;
  {
    const std::lock_guard lock(mutex_);
    Entry& entry = entries_[name];
    engines = &entry.model->engines();  // only this thread destroys them
    timelines.assign(entry.timelines.begin(), entry.timelines.end());
  }
  SaveCaches(name, *engines, timelines);
  std::unique_ptr<LoadedModel> model;
  {
    const std::lock_guard lock(mutex_);
    Entry& entry = entries_[name];
    const std::vector<FleetEngine> counts = entry.model->engines().each();
    for (size_t i = 0; i < counts.size(); ++i) AddStats(unloaded_[i], WithoutGauges(counts[i].stats));
    model = std::move(entry.model);
    entry.timelines.clear();
  }
  model.reset();  // frees gigabytes: without the lock
  const std::lock_guard lock(mutex_);
  Entry& entry = entries_[name];
  entry.state = State::kUnloaded;
  entry.counts.unload_seconds += Seconds(NowNs() - start_ns);
  ++entry.counts.unloads;
  Finish(entry.unloads, Status::Ok());
  LogInfo("models: {} is unloaded, in {:.2f} s", name, Seconds(NowNs() - start_ns));
}

void ModelPool::SaveNow(Engine::Done done) {
  size_t count = 0;
  for (const auto& [name, entry] : entries_) count += entry.model != nullptr ? 1 : 0;
  if (count == 0) return storage_.mutable_tiers().Flush(std::move(done));
  const Engine::Done told = AfterAll(count, std::move(done));
  for (const auto& [name, entry] : entries_) {
    if (entry.model != nullptr) entry.model->engines().SaveAll(told);
  }
}

void ModelPool::SaveAll(Engine::Done done) {
  const std::lock_guard lock(mutex_);
  if (job_running_) {
    saves_.push_back(std::move(done));
  } else {
    SaveNow(std::move(done));
  }
}

void ModelPool::Tick() {
  ForEachModel([](LoadedModel& model) { model.engines().Tick(); });
}

void ModelPool::Ping(size_t engine, const std::function<void()>& alive) {
  // An engine that is destroyed before it has answered drops its copy: it does not hang either.
  const std::shared_ptr<void> last(nullptr, [alive](void*) { alive(); });
  ForEachModel([&](LoadedModel& model) { model.engines().engine(engine).Ping([last] {}); });
}

Status ModelPool::status() const {
  Status first;
  ForEachModel([&](LoadedModel& model) {
    if (first.ok()) first = model.status();
  });
  return first;
}

bool ModelPool::devices_ok() const {
  bool ok = true;
  ForEachModel([&](LoadedModel& model) { ok = ok && model.devices_ok(); });
  return ok;
}

std::vector<FleetEngine> ModelPool::each() const {
  std::vector<FleetEngine> all(unloaded_.size());
  ForEachModel([&](LoadedModel& model) {
    const std::vector<FleetEngine> own = model.engines().each();
    for (size_t i = 0; i < own.size(); ++i) {
      all[i].state = std::max(all[i].state, own[i].state);
      AddStats(all[i].stats, own[i].stats);
    }
  });
  const std::lock_guard lock(mutex_);
  for (size_t i = 0; i < all.size(); ++i) AddStats(all[i].stats, unloaded_[i]);
  if (texts_ != nullptr) all.front().stats.turns_waiting += waiting_.size();
  return all;
}

EngineStats ModelPool::stats() const { return SumStats(each()); }

std::vector<ModelStatus> ModelPool::Models() const {
  constexpr const char* kStates[] = {"unloaded", "loading", "loaded", "unloading"};
  const std::lock_guard lock(mutex_);
  std::vector<ModelStatus> all;
  for (const auto& [name, entry] : entries_) {
    ModelStatus& status = all.emplace_back(entry.counts);
    const bool failed = entry.state == State::kUnloaded && !entry.failure.ok();
    status.state = failed ? "failed" : kStates[static_cast<int>(entry.state)];
    status.waiting = waiting_.Count(name);
    if (entry.model != nullptr) status.bytes = entry.bytes;
  }
  return all;
}

}  // namespace ringside
