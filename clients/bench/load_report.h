// What a load run measured, turn by turn, and how it is told: a table, JSON, a picture. Plain values and pure
// functions.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "clients/bench/bench.h"

namespace ringside::client {

/// One turn as its user saw it.
struct TurnRecord {
  int conversation = 0, turn = 0;  // from 0
  double start_s = 0;              // since the run's beginning
  double ttft_ms = 0;              // to the first text; to the end where there was none
  double total_ms = 0;
  std::vector<double> gaps_ms;                                     // between pieces of text
  int64_t input_tokens = 0, cached_tokens = 0, output_tokens = 0;  // as the server tells; 0 where it does not
  std::string error, message;                                      // "" = none
};

struct LoadRun {
  std::vector<TurnRecord> turns;  // in the order of their ends
  double wall_s = 0;
  int reconnects = 0;
};

std::string LoadTable(const LoadBenchOptions& options, const LoadRun& run);
/// {protocol, conversations, turns, failures, errors, ..., ttft_ms, itl_ms, e2e_ms: {p50, p90, p99}, records: [...]}.
std::string LoadJson(const LoadBenchOptions& options, const LoadRun& run);
/// An SVG picture: percentiles of the first token and between pieces of text, over the time at which turns began.
std::string LoadChart(const LoadBenchOptions& options, const LoadRun& run);
std::map<std::string, int> CountErrors(const LoadRun& run);

}  // namespace ringside::client
