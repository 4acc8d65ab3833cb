// What a simulated load came to: rates, percentiles, what turns waited for; as a table and as one JSON object. Any
// thread.
#pragma once

#include <string>
#include <vector>

#include "tests/sim/simulation.h"

namespace ringside {

struct Percentiles {
  double p50 = 0, p99 = 0, most = 0;
};
/// Of any values, straight between two; zeroes of none.
Percentiles PercentilesOf(std::vector<double> values);

struct SimReport {
  double tokens_per_second = 0;
  std::vector<Percentiles> first_token_ms;  // by the turn's number in its conversation
  Percentiles gap_ms;                       // between tokens
  // What passed before a first token: until the engine began with the turn (of it the cache's way back), and from then.
  Percentiles slot_ms, restore_ms, prompt_ms;
  double device_share = 0;                                          // of the time, with a step under way
  std::vector<Percentiles> users_ms;                                // first tokens of each user
  int64_t computed = 0;                                             // prompt tokens
  int64_t from_slot = 0, from_host = 0, recomputed = 0, fresh = 0;  // turns, by where their caches came from
};

SimReport ReportOf(const SimResult& result);
std::string Table(const SimReport& report);
std::string Json(const SimReport& report);

}  // namespace ringside
