// How long a device takes for a step and for a copy, as plain numbers fitted to measurements by scripts/fit_costs and
// kept in tests/sim/costs/*.json, one file for each model and device. A value; any thread.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "base/status.h"
#include "engine/families/model_spec.h"

namespace ringside {

/// What a step's time depends on.
struct StepWork {
  int64_t rows = 0;
  int64_t prompts = 0;   // parts with more than one row
  int64_t decoding = 0;  // parts with one
  int64_t keys = 0;      // that the last row of each part sees
  double products = 0;   // pairs of a prompt's row and a key that it sees
};

struct CostModel {
  std::string model, device;
  ModelSpec spec;  // the sizes that decide slots, chunks and the bytes of a token

  // A step takes the sum of: its rows through the table of its kind, the keys that it reads, the pairs of a prompt's
  // row and a key that it multiplies. In ms.
  using Table = std::vector<std::pair<double, double>>;  // rows -> ms, straight between
  Table decode;                                          // steps without prompts
  Table recorded;                                        // prompts alone that are replayed as a graph
  Table other;
  double key = 0, product = 0;

  // The host's part of a step, in ms: before the device can begin, and after it has ended.
  double begin = 0, begin_row = 0, finish = 0, finish_row = 0;

  double load_ms = 0, load_bytes_per_ms = 0, save_ms = 0, save_bytes_per_ms = 0;  // a copy: so long, then this rate

  double seal_bytes_per_ms = 0;  // of the thread of the tiers: what it hashes before it takes a cache in

  /// From one of the files; kInvalidArgument naming what is wrong with it.
  static Result<CostModel> Read(const std::string& path);

  double StepMs(const StepWork& work) const;
};

/// Where the files of the repository are.
std::string CostFile(const std::string& name);

}  // namespace ringside
