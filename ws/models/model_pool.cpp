#include "ws/models/model_pool.h"

#include <pthread.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "base/check.h"
#include "base/clock.h"
#include "engine/forwarding_sink.h"

namespace ringside {
namespace {

// After a failed load, turns of the model are refused for this time instead of another attempt.
constexpr int64_t kLoadRetryNs = 10'000'000'000;

}  // namespace

/// Counts the turn as running until its end was delivered.
class ModelPool::CountingSink final : public ForwardingSink {
 public:
  CountingSink(std::shared_ptr<TokenSink> next, ModelPool& pool, std::string model)
      : ForwardingSink(std::move(next)), pool_(pool), model_(std::move(model)) {}

  void OnEnd(const TurnEnd& end) override {
    ForwardingSink::OnEnd(end);
    pool_.OnTurnEnd(model_);
  }

 private:
  ModelPool& pool_;
  const std::string model_;
};

ModelPool::ModelPool(const ServerConfig& config, Processes& processes, Storage& storage, const ModelTexts* texts)
    : config_(config),
      processes_(processes),
      storage_(storage),
      texts_(texts),
      waiting_(config.queue_limit),
      unloaded_(static_cast<size_t>(config.data_parallel_size)) {
  if (texts_ == nullptr) return;
  thread_ = std::jthread([this](const std::stop_token& stop) { Run(stop); });
  pthread_setname_np(thread_.native_handle(), "models");
}

ModelPool::~ModelPool() {
  thread_ = {};
  if (job_.joinable()) job_.join();
  Entries entries;
  {
    const std::lock_guard lock(mutex_);
    entries.swap(entries_);  // turns that end now find no entry
  }
  for (auto& [name, entry] : entries) {
    for (auto* asking : {&entry.loads, &entry.unloads}) Finish(*asking, Unavailable("The server is stopping."));
  }
}

int64_t ModelPool::NowNs() { return SystemClock::Instance().MonotonicNs(); }

void ModelPool::Add(std::unique_ptr<LoadedModel> model) {
  const std::lock_guard lock(mutex_);
  Entry& entry = EntryOf("");
  entry.counts.name = model->text().name;
  entry.model = std::move(model);
  entry.state = State::kLoaded;
  entry.counts.loads = 1;
}

LoadedModel& ModelPool::only() {
  const std::lock_guard lock(mutex_);
  CHECK(texts_ == nullptr && !entries_.empty());
  return *entries_.begin()->second.model;
}

ModelPool::Entry& ModelPool::EntryOf(const std::string& model) {
  Entry& entry = entries_[model];
  if (entry.counts.name.empty()) entry.counts.name = model;
  return entry;
}

void ModelPool::ForEachModel(const std::function<void(LoadedModel& model)>& use) const {
  const std::lock_guard lock(mutex_);
  for (const auto& [name, entry] : entries_) {
    if (entry.model != nullptr) use(*entry.model);
  }
}

bool ModelPool::Admits(const std::string& name, const Entry& entry) const {
  return entry.state == State::kLoaded && (held_.empty() || held_ != name);
}

Status ModelPool::SubmitTo(const std::string& name, Entry& entry, TurnRequest request) {
  const TimelineId timeline = request.timeline;
  request.sink = std::make_shared<CountingSink>(std::move(request.sink), *this, name);
  RETURN_IF_ERROR(entry.model->engines().Submit(std::move(request)));
  ++entry.counts.running;
  if (texts_ != nullptr) entry.timelines.insert(timeline);
  return Status::Ok();
}

Status ModelPool::CheckWait(const TurnRequest& request) {
  const std::lock_guard lock(mutex_);
  const std::string name = texts_ == nullptr ? "" : request.model;
  const Entry& entry = EntryOf(name);
  return Admits(name, entry) ? entry.model->engines().CheckWait(request) : Status::Ok();
}

Status ModelPool::Submit(TurnRequest request) {
  const std::lock_guard lock(mutex_);
  const std::string name = texts_ == nullptr ? "" : request.model;
  Entry& entry = EntryOf(name);
  if (Admits(name, entry)) return SubmitTo(name, entry, std::move(request));
  if (!entry.failure.ok() && NowNs() - entry.failed_ns < kLoadRetryNs) return entry.failure;
  RETURN_IF_ERROR(waiting_.Push(name, std::move(request), NowNs()));
  Poke();
  return Status::Ok();
}

void ModelPool::Poke() {
  poked_ = true;
  changed_.notify_all();
}

void ModelPool::Cancel(TurnId turn) {
  {
    const std::lock_guard lock(mutex_);
    if (waiting_.Cancel(turn)) return Poke();
  }
  ForEachModel([&](LoadedModel& model) { model.engines().Cancel(turn); });
}

void ModelPool::Close(TimelineId timeline) {
  const std::lock_guard lock(mutex_);
  for (auto& [name, entry] : entries_) {
    if (entry.model != nullptr) entry.model->engines().Close(timeline);
    entry.timelines.erase(timeline);
  }
}

void ModelPool::Park(TimelineId timeline) {
  const std::lock_guard lock(mutex_);
  for (auto& [name, entry] : entries_) {
    if (entry.model != nullptr) entry.model->engines().Park(timeline);
    entry.timelines.erase(timeline);
  }
}

void ModelPool::Fork(TimelineId from, TimelineId to, const std::string& from_owner, const std::string& to_owner) {
  LoadedModel* source = nullptr;
  const std::lock_guard lock(mutex_);
  for (const auto& [name, entry] : entries_) {
    if (entry.model == nullptr) continue;
    const bool has = texts_ == nullptr || entry.timelines.contains(from) ||
                     entry.model->engines().Where(from_owner) == CacheSource::kSlot;
    if (has) source = entry.model.get();
  }
  if (source != nullptr) return source->engines().Fork(from, to, from_owner, to_owner);
  if (!from_owner.empty() && !to_owner.empty()) storage_.mutable_tiers().Fork(from_owner, to_owner, nullptr);
}

void ModelPool::Erase(TimelineId timeline, const std::string& owner) {
  bool any = false;
  ForEachModel([&](LoadedModel& model) {
    model.engines().Erase(timeline, owner, nullptr);
    any = true;
  });
  if (!any && !owner.empty()) storage_.mutable_tiers().Erase(owner, nullptr);
}

void ModelPool::Prefetch(const std::string& owner) {
  bool asked = false;
  ForEachModel([&](LoadedModel& model) {
    if (!std::exchange(asked, true)) model.engines().Prefetch(owner);
  });
  if (!asked && !owner.empty()) storage_.mutable_tiers().Prefetch(owner);
}

std::optional<CacheSource> ModelPool::Where(const std::string& owner) const {
  std::optional<CacheSource> place;
  bool asked = false;
  ForEachModel([&](LoadedModel& model) {
    if (place == CacheSource::kSlot) return;
    place = model.engines().Where(owner);
    asked = true;
  });
  if (asked || owner.empty()) return place;
  const auto stored = storage_.tiers().Find(owner);
  if (!stored) return std::nullopt;
  return stored->tier == StorageTier::kHost ? CacheSource::kHost : CacheSource::kDisk;
}

void ModelPool::OnTurnEnd(const std::string& name) {
  const std::lock_guard lock(mutex_);
  const auto at = entries_.find(name);
  if (at == entries_.end()) return;  // the server stops
  at->second.used_ns = NowNs();
  if (--at->second.counts.running == 0) Poke();
}

void ModelPool::EndWaiting(std::unique_lock<std::mutex>& lock, std::vector<TurnRequest> turns, FinishReason reason,
                           const Status& why) {
  if (turns.empty()) return;
  lock.unlock();
  for (TurnRequest& turn : turns) {
    turn.sink->OnEnd(TurnEnd{.reason = reason, .error = why});
    turn.sink.reset();
  }
  turns.clear();
  lock.lock();
}

void ModelPool::AdmitWaiting(std::unique_lock<std::mutex>& lock) {
  std::vector<std::pair<std::shared_ptr<TokenSink>, Status>> refused;
  for (auto& [name, entry] : entries_) {
    if (!Admits(name, entry)) continue;
    for (TurnRequest& turn : waiting_.PopAll(name)) {
      const std::shared_ptr<TokenSink> sink = turn.sink;
      if (Status status = SubmitTo(name, entry, std::move(turn)); !status.ok()) refused.emplace_back(sink, status);
    }
  }
  if (refused.empty()) return;
  lock.unlock();
  for (auto& [sink, why] : refused) {
    sink->OnEnd(TurnEnd{.reason = FinishReason::kError, .error = why});
    sink.reset();
  }
  lock.lock();
}

void ModelPool::Run(const std::stop_token& stop) {
  std::unique_lock lock(mutex_);
  while (!stop.stop_requested()) {
    poked_ = false;
    EndWaiting(lock, waiting_.PopCancelled(), FinishReason::kCancelled, {});
    AdmitWaiting(lock);
    const std::optional<int64_t> again_ns = job_running_ ? std::nullopt : StartSwap(lock);
    if (stop.stop_requested()) break;
    const auto pause = again_ns ? std::chrono::nanoseconds(std::max<int64_t>(*again_ns - NowNs(), 0))
                                : std::chrono::nanoseconds(std::chrono::seconds(60));
    changed_.wait_for(lock, stop, pause, [this] { return poked_; });
  }
  std::vector<TurnRequest> left = waiting_.PopCancelled();
  for (const auto& [name, entry] : entries_) {
    for (TurnRequest& turn : waiting_.PopAll(name)) left.push_back(std::move(turn));
  }
  EndWaiting(lock, std::move(left), FinishReason::kCancelled, {});
}

}  // namespace ringside
