// A model's state and counts, for lists and metrics. A plain value.
#pragma once

#include <cstdint>
#include <string>

namespace ringside {

struct ModelStatus {
  std::string name;
  std::string state;                 // "loaded", "loading", "unloading", "unloaded", "failed"
  std::string failure;               // of the last load; "" = none
  int64_t running = 0, waiting = 0;  // turns
  int64_t bytes = 0;                 // weights and cache memory while loaded
  uint64_t loads = 0, unloads = 0, load_failures = 0;
  double load_seconds = 0, unload_seconds = 0;  // totals
};

}  // namespace ringside
