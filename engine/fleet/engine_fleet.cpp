#include "engine/fleet/engine_fleet.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "base/log.h"
#include "engine/forwarding_sink.h"

namespace ringside {

void AddStats(EngineStats& sum, const EngineStats& one) {
  sum.slots += one.slots;
  sum.slots_used += one.slots_used;
  sum.turns_running += one.turns_running;
  sum.turns_waiting += one.turns_waiting;
  sum.steps += one.steps;
  sum.tokens_prefilled += one.tokens_prefilled;
  sum.tokens_reused += one.tokens_reused;
  sum.tokens_decoded += one.tokens_decoded;
  sum.tokens_evicted += one.tokens_evicted;
  sum.tokens_drafted += one.tokens_drafted;
  sum.drafts_accepted += one.drafts_accepted;
  sum.tokens_shared += one.tokens_shared;
  sum.rebuilds += one.rebuilds;
  sum.slots_taken += one.slots_taken;
  sum.kv_bytes += one.kv_bytes;
  sum.kv_bytes_used += one.kv_bytes_used;
  sum.kv_bytes_shared += one.kv_bytes_shared;
  sum.turns_preempted_for_memory += one.turns_preempted_for_memory;
  sum.turns_preempted += one.turns_preempted;
  sum.written_back += one.written_back;
  sum.captures += one.captures;
  sum.captured_bytes += one.captured_bytes;
  sum.capture_ms += one.capture_ms;
  sum.unsaved += one.unsaved;
  sum.unsaved_bytes += one.unsaved_bytes;
  sum.caches_dropped += one.caches_dropped;
  sum.saves_refused += one.saves_refused;
  sum.restores_host += one.restores_host;
  sum.restores_disk += one.restores_disk;
  sum.restored_bytes += one.restored_bytes;
  sum.restore_ms += one.restore_ms;
  sum.recomputed_instead += one.recomputed_instead;
  sum.fetches_late += one.fetches_late;
  sum.fetches_failed += one.fetches_failed;
  sum.prefill_tokens_per_second += one.prefill_tokens_per_second;
  sum.prompt_wait_s = std::max(sum.prompt_wait_s, one.prompt_wait_s);
  sum.turns_refused += one.turns_refused;
}

EngineStats SumStats(std::vector<FleetEngine> engines) {
  EngineStats sum;
  for (FleetEngine& engine : engines) {
    if (engine.state != EngineState::kServing) engine.stats.slots = engine.stats.kv_bytes = 0;
    AddStats(sum, engine.stats);
  }
  return sum;
}

Engine::Done AfterAll(size_t count, Engine::Done done) {
  struct Calls {
    std::mutex mutex;
    size_t left;
    Status first;
    Engine::Done done;
  };
  const auto calls = std::make_shared<Calls>();
  calls->left = count;
  calls->done = std::move(done);
  return [calls](const Status& status) {
    std::unique_lock lock(calls->mutex);
    if (calls->first.ok()) calls->first = status;
    if (--calls->left > 0) return;
    lock.unlock();
    if (calls->done) calls->done(calls->first);
  };
}

const char* EngineStateName(EngineState state) {
  switch (state) {
    case EngineState::kServing:
      return "serving";
    case EngineState::kDraining:
      return "draining";
    case EngineState::kDrained:
      return "drained";
    case EngineState::kFailed:
      return "failed";
  }
  return "";
}

/// Notifies the fleet of the turn's end before the next sink.
class EngineFleet::PinnedSink final : public ForwardingSink {
 public:
  PinnedSink(std::shared_ptr<TokenSink> next, EngineFleet& fleet, TimelineId timeline, size_t engine)
      : ForwardingSink(std::move(next)), fleet_(fleet), timeline_(timeline), engine_(engine) {}

  void OnEnd(const TurnEnd& end) override {
    {
      std::lock_guard lock(fleet_.mutex_);
      fleet_.Ended(timeline_, engine_);
    }
    ForwardingSink::OnEnd(end);
  }

 private:
  EngineFleet& fleet_;
  const TimelineId timeline_;
  const size_t engine_;
};

EngineFleet::EngineFleet(std::vector<std::unique_ptr<Engine>> engines)
    : placement_(engines.size()), engines_(std::move(engines)) {
  CHECK(!engines_.empty());
}

EngineFleet::~EngineFleet() = default;

bool EngineFleet::InSlot(size_t engine, const std::string& owner) const {
  return !owner.empty() && engines_[engine]->Where(owner) == CacheSource::kSlot;
}

size_t EngineFleet::Choose(const TurnRequest& request) const {
  const Placement::Pin* pin = placement_.Find(request.timeline);
  if (pin != nullptr && !placement_.failed(pin->engine)) {
    // While a turn runs, that engine reports the conflict. Without an owner the cache is there or nowhere.
    if (pin->turns > 0 || request.owner.empty() || InSlot(pin->engine, request.owner)) return pin->engine;
  }
  // A fork's rows are copied on the device of its source, unless that engine is shedding conversations.
  const std::optional<size_t> source = SourceOf(request);
  if (source && !placement_.drains(*source) && placement_.CountToShed(*source) == 0) return *source;
  // A parked session returns with a new timeline, perhaps before its cache has left the slot.
  std::vector<Placement::Load> loads;
  for (size_t i = 0; i < engines_.size(); ++i) {
    if (InSlot(i, request.owner)) return i;
    const EngineStats now = engines_[i]->stats();
    const double used =
        static_cast<double>(now.kv_bytes_used) / static_cast<double>(std::max<int64_t>(now.kv_bytes, 1));
    loads.push_back({.refuses = !engines_[i]->MayAdmit(request), .used = used});
  }
  return placement_.LeastLoaded(loads);
}

Status EngineFleet::CheckWait(const TurnRequest& request) {
  if (options().max_wait_s <= 0) return Status::Ok();
  if (engines_.size() == 1) return engines_.front()->CheckWait(request);
  std::lock_guard lock(mutex_);
  RemoveFailed();
  return engines_[Choose(request)]->CheckWait(request);
}

Status EngineFleet::Submit(TurnRequest request) {
  if (engines_.size() == 1) return engines_.front()->Submit(std::move(request));
  const TimelineId timeline = request.timeline;
  size_t engine = 0;
  std::optional<size_t> source;
  {
    std::lock_guard lock(mutex_);
    RemoveFailed();
    engine = Choose(request);
    const Placement::Pin* before = placement_.Find(timeline);
    // Its cache there is gone or stale.
    if (before != nullptr && before->engine != engine) engines_[before->engine]->Close(timeline);
    placement_.Begin(timeline, engine, request.owner);
    MoveIdle(engine);
    source = SourceOf(request);
  }
  if (source && *source != engine) {  // the cache moves through the tiers
    engines_[*source]->Fork(request.forked_from, timeline, request.forked_owner, request.owner);
    request.forked_from = 0;
  }
  request.sink = std::make_shared<PinnedSink>(std::move(request.sink), *this, timeline, engine);
  Status status = engines_[engine]->Submit(std::move(request));
  if (!status.ok()) {
    std::lock_guard lock(mutex_);
    Ended(timeline, engine);
  }
  return status;
}

void EngineFleet::Ended(TimelineId timeline, size_t engine) {
  placement_.End(timeline, engine);
  if (placement_.drains(engine)) MoveIdle(engine);
}

void EngineFleet::MoveIdle(size_t engine) {
  for (size_t most = placement_.CountToShed(engine); most > 0; --most) {
    if (const auto timeline = placement_.PopIdle(engine)) engines_[engine]->Park(*timeline);
  }
}

void EngineFleet::Tick() {
  for (const auto& engine : engines_) engine->Ping([] {});
  std::lock_guard lock(mutex_);
  RemoveFailed();
}

void EngineFleet::RemoveFailed() {
  for (size_t i = 0; i < engines_.size(); ++i) {
    if (placement_.failed(i) || engines_[i]->healthy()) continue;
    placement_.SetFailed(i);
    LogError("engine {} is out of service: {}", i, engines_[i]->status().message());
    MoveIdle(i);
    if (placement_.OthersServe(i)) continue;
    for (size_t other = 0; other < engines_.size(); ++other) {
      if (placement_.failed(other)) continue;
      placement_.SetDrains(other, false);
      LogInfo("engine {}: resumed, because no other engine serves", other);
    }
  }
}

void EngineFleet::Forget(TimelineId timeline) {
  std::lock_guard lock(mutex_);
  placement_.Forget(timeline);
}

void EngineFleet::Cancel(TurnId turn) {
  for (const auto& engine : engines_) engine->Cancel(turn);
}

void EngineFleet::Close(TimelineId timeline) {
  Forget(timeline);
  for (const auto& engine : engines_) engine->Close(timeline);
}

void EngineFleet::Park(TimelineId timeline) {
  Forget(timeline);
  for (const auto& engine : engines_) engine->Park(timeline);
}

void EngineFleet::Erase(TimelineId timeline, const std::string& owner, Engine::Done done) {
  Forget(timeline);
  const Engine::Done told = AfterAll(engines_.size(), std::move(done));
  for (const auto& engine : engines_) engine->Erase(timeline, owner, told);
}

std::optional<size_t> EngineFleet::EngineOf(TimelineId timeline, const std::string& owner) const {
  if (const Placement::Pin* pin = placement_.Find(timeline)) return pin->engine;
  for (size_t i = 0; i < engines_.size(); ++i) {
    if (InSlot(i, owner)) return i;
  }
  return std::nullopt;
}

std::optional<size_t> EngineFleet::SourceOf(const TurnRequest& request) const {
  if (request.forked_from == 0) return std::nullopt;
  return EngineOf(request.forked_from, request.forked_owner);
}

void EngineFleet::Fork(TimelineId from, TimelineId to, const std::string& from_owner, const std::string& to_owner) {
  size_t engine = 0;
  {
    std::lock_guard lock(mutex_);
    engine = EngineOf(from, from_owner).value_or(0);
  }
  engines_[engine]->Fork(from, to, from_owner, to_owner);
}

void EngineFleet::SaveAll(Engine::Done done) {
  const Engine::Done told = AfterAll(engines_.size(), std::move(done));
  for (const auto& engine : engines_) engine->SaveAll(told);
}

std::optional<CacheSource> EngineFleet::Where(const std::string& owner) const {
  for (size_t i = 1; i < engines_.size(); ++i) {
    if (InSlot(i, owner)) return CacheSource::kSlot;
  }
  return engines_.front()->Where(owner);
}

bool EngineFleet::healthy() const {
  return std::ranges::any_of(engines_, [](const auto& engine) { return engine->healthy(); });
}

EngineStats EngineFleet::stats() const { return SumStats(each()); }

std::vector<FleetEngine> EngineFleet::each() const {
  std::vector<FleetEngine> out(engines_.size());
  for (size_t i = 0; i < engines_.size(); ++i) {
    {
      std::lock_guard lock(mutex_);
      if (placement_.drains(i)) out[i].state = placement_.turns(i) > 0 ? EngineState::kDraining : EngineState::kDrained;
    }
    out[i].stats = engines_[i]->stats();
    if (out[i].state == EngineState::kDrained && out[i].stats.slots_used > 0) out[i].state = EngineState::kDraining;
    if (!engines_[i]->healthy()) out[i].state = EngineState::kFailed;
  }
  return out;
}

Status EngineFleet::CheckNumber(size_t engine) const {
  if (engine < engines_.size()) return Status::Ok();
  return NotFound(fmt::format("There is no such engine: they are numbered from 0 to {}.", engines_.size() - 1), "",
                  "engine_not_found");
}

Status EngineFleet::Drain(size_t engine) {
  RETURN_IF_ERROR(CheckNumber(engine));
  if (engines_.size() == 1) {
    return Status(StatusCode::kMismatch, "This server has one engine: its conversations have nowhere else to go.", "",
                  "only_engine");
  }
  std::lock_guard lock(mutex_);
  RETURN_IF_ERROR(CheckServes(engine));
  if (!placement_.OthersServe(engine)) {
    return Status(StatusCode::kMismatch, "All other engines are drained or have failed: resume one of them first.", "",
                  "only_engine");
  }
  placement_.SetDrains(engine, true);
  MoveIdle(engine);
  return Status::Ok();
}

Status EngineFleet::CheckServes(size_t engine) const {
  if (engines_[engine]->healthy()) return Status::Ok();
  return Status(StatusCode::kMismatch, "This engine has failed; restart the server to use it again.", "",
                "engine_failed");
}

Status EngineFleet::Resume(size_t engine) {
  RETURN_IF_ERROR(CheckNumber(engine));
  std::lock_guard lock(mutex_);
  RETURN_IF_ERROR(CheckServes(engine));
  placement_.SetDrains(engine, false);
  return Status::Ok();
}

size_t EngineFleet::timelines(size_t engine) const {
  std::lock_guard lock(mutex_);
  return placement_.conversations(engine);
}

}  // namespace ringside
