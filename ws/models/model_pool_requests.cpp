// Loads and unloads that clients ask for.
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "ws/models/model_pool.h"

namespace ringside {
namespace {

constexpr size_t kMostAsking = 64;  // requests that wait for one model

}  // namespace

void ModelPool::Finish(std::vector<Engine::Done>& asking, const Status& status) {
  for (const Engine::Done& done : std::exchange(asking, {})) done(status);
}

Status ModelPool::CheckUnused(const std::string& name, const Entry& entry) const {
  const int64_t running = entry.counts.running, waiting = waiting_.Count(name);
  const bool loading = entry.state == State::kLoading || !entry.loads.empty();
  if (running == 0 && waiting == 0 && !loading) return Status::Ok();
  const std::string why =
      loading ? "is being loaded" : fmt::format("has {} running and {} waiting turns", running, waiting);
  return Status(StatusCode::kBusy, fmt::format("The model '{}' {}; it can be unloaded after that.", name, why), "model",
                "model_in_use");
}

void ModelPool::Change(ModelChange change, const std::string& name, Engine::Done done) {
  const std::lock_guard lock(mutex_);
  Entry& entry = EntryOf(name);
  const bool load = change == ModelChange::kLoad;
  if (load && entry.state == State::kLoaded) return done(Status::Ok());
  if (!load) {
    if (const Status unused = CheckUnused(name, entry); !unused.ok()) return done(unused);
    if (entry.state == State::kUnloaded) return done(Status::Ok());
  }
  std::vector<Engine::Done>& asking = load ? entry.loads : entry.unloads;
  if (asking.size() >= kMostAsking) {
    return done(Overloaded(fmt::format("{} requests wait for the model '{}' already.", kMostAsking, name)));
  }
  if (load && asking.empty()) entry.asked_ns = NowNs();
  asking.push_back(std::move(done));
  Poke();
}

std::optional<int64_t> ModelPool::WantedNs(const std::string& name, const Entry& entry) const {
  const std::optional<int64_t> turn_ns = waiting_.OldestNs(name);
  return entry.loads.empty() ? turn_ns : std::min(turn_ns.value_or(entry.asked_ns), entry.asked_ns);
}

bool ModelPool::StartAskedUnload() {
  for (auto& [name, entry] : entries_) {
    if (entry.unloads.empty() || entry.state != State::kLoaded) continue;
    if (const Status unused = CheckUnused(name, entry); !unused.ok()) {
      Finish(entry.unloads, unused);
      continue;
    }
    entry.state = State::kUnloading;
    StartJob([this, name = name] { Unload(name); });
    return true;
  }
  return false;
}

}  // namespace ringside
