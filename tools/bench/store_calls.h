// Blocking calls of a TieredStore. Its callbacks run on its own thread.
#pragma once

#include <future>
#include <string>
#include <utility>

#include "cache/store/tiered_store.h"

namespace ringside {

inline Result<FetchedSnapshot> Fetch(TieredStore& tiers, const std::string& owner) {
  std::promise<Result<FetchedSnapshot>> told;
  tiers.Fetch(owner, [&](Result<FetchedSnapshot> fetched) { told.set_value(std::move(fetched)); });
  return told.get_future().get();
}

/// The status that `call` passes to the callback that it is given.
template <class Call>
Status Wait(const Call& call) {
  std::promise<Status> told;
  call([&](const Status& status) { told.set_value(status); });
  return told.get_future().get();
}

}  // namespace ringside
