#include "cache/saved_origins.h"

namespace ringside {

void SavedOrigins::Note(const Snapshot& snapshot) {
  const uint64_t id = snapshot.header().id;
  if (!origins_.emplace(id, snapshot.origins()).second) return;
  ids_.push_back(id);
  if (ids_.size() <= kMost) return;
  origins_.erase(ids_.front());
  ids_.pop_front();
}

void SavedOrigins::Attach(Snapshot* snapshot) const {
  if (const auto found = origins_.find(snapshot->header().id); found != origins_.end()) {
    snapshot->set_origins(found->second);
  }
}

}  // namespace ringside
