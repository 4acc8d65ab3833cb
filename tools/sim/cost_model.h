// The time of a device for a step and for a copy, as numbers fitted to measurements by scripts/fit_costs and stored in
// tools/sim/costs/*.json, one file per model and device. A value. THREAD: any.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "base/status.h"
#include "engine/families/model_spec.h"

namespace ringside {

/// The properties that determine a step's time.
struct StepWork {
  int64_t rows = 0;
  int64_t prompts = 0;         // parts with more than one row
  int64_t decoding = 0;        // parts with one
  int64_t keys = 0;            // that the last row of each part attends to
  double products = 0;         // (row, key) pairs of prompts
  bool shares_prefix = false;  // some of its keys are read once for several parts; `keys` counts them once
};

struct CostModel {
  std::string model, device;
  ModelSpec spec;  // the sizes that determine slots, chunks and bytes per token

  // A step's time in ms is the sum of: its rows, by the table of its kind, the keys that it reads, and the (row, key)
  // pairs of its prompts.
  using Table = std::vector<std::pair<double, double>>;  // rows -> ms, linear in between
  Table decode;                                          // steps without prompts
  Table recorded;                                        // steps of whole row tiles, and small ones without decode rows
  Table other;
  double key = 0, product = 0;

  // The host's part of a step, in ms: before the device can start, and after it has finished.
  double begin = 0, begin_row = 0, finish = 0, finish_row = 0;

  double load_ms = 0, load_bytes_per_ms = 0, save_ms = 0, save_bytes_per_ms = 0;  // a copy: latency, then bandwidth

  double seal_bytes_per_ms = 0;  // of the tiers' thread: hashing before it accepts a cache

  /// Reads one of the files; kInvalidArgument describes the fault.
  static Result<CostModel> Read(const std::string& path);

  double StepMs(const StepWork& work) const;

 private:
  /// The part of a step's time that its rows take.
  double RowsMs(const StepWork& work) const;
};

/// Path of a cost file in the repository.
std::string CostFile(const std::string& name);

}  // namespace ringside
