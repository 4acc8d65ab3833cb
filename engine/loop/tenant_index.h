// The tenants of a list of turns, numbered for the scheduler's functions. Plain data. THREAD: engine.
#pragma once

#include <cstddef>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "engine/scheduler.h"

namespace ringside {

struct TenantIndex {
  std::vector<size_t> tenants;  // of each turn: an index of `served`
  std::vector<double> served;   // tokens served to each tenant, in the order in which the turns name them

  /// `turns`: pointers to turns.
  template <class Turns>
  TenantIndex(const Turns& turns, const VirtualTokenCounter& tokens) {
    std::unordered_map<std::string_view, size_t> places;
    for (const auto& turn : turns) {
      const auto [place, is_new] = places.try_emplace(turn->request().tenant, served.size());
      if (is_new) served.push_back(tokens.Of(turn->request().tenant));
      tenants.push_back(place->second);
    }
  }
};

}  // namespace ringside
