// Results of a simulated load: rates, percentiles, waiting times; as a table and as one JSON object. THREAD: any.
#pragma once

#include <string>
#include <vector>

#include "tools/sim/simulation.h"

namespace ringside {

struct Percentiles {
  double p50 = 0, p99 = 0, most = 0;
};
/// Percentiles with linear interpolation; zeroes without values.
Percentiles PercentilesOf(std::vector<double> values);

/// Turns of the conversations with one role.
struct RoleReport {
  std::string role;
  int64_t turns = 0;
  Percentiles first_ms, later_ms;  // first tokens, of first turns and of the others
  Percentiles gap_ms, turn_ms;     // between tokens; whole turns
};

struct SimReport {
  double tokens_per_second = 0;
  std::vector<Percentiles> first_token_ms;  // by the turn's number in its conversation
  Percentiles gap_ms;                       // between tokens
  // Parts of the time to first token: until the engine started the turn (including the cache's restore), and from then
  // on.
  Percentiles slot_ms, restore_ms, prompt_ms;
  double device_share = 0;                                          // share of the time with a step in flight
  std::vector<Percentiles> users_ms;                                // first tokens of each user
  std::vector<RoleReport> roles;                                    // by name, if any conversation has one
  int64_t computed = 0;                                             // prompt tokens
  int64_t from_slot = 0, from_host = 0, recomputed = 0, fresh = 0;  // turns, by cache source
};

SimReport ReportOf(const SimResult& result);
std::string Table(const SimReport& report);
std::string Json(const SimReport& report);

}  // namespace ringside
