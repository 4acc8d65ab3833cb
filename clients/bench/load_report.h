// Results of a load run, turn by turn, as a table, JSON and a chart. Plain values and pure functions.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "clients/bench/bench.h"

namespace ringside::client {

/// One turn as seen by its user.
struct TurnRecord {
  int conversation = 0, turn = 0;  // from 0
  double start_s = 0;              // since the start of the run
  double ttft_ms = 0;              // to the first text, or to the end if there was none
  double total_ms = 0;
  std::vector<double> gaps_ms;                                     // between pieces of text
  int64_t input_tokens = 0, cached_tokens = 0, output_tokens = 0;  // as reported by the server; 0 if it does not
  std::string error, message;                                      // "" = none
};

struct LoadRun {
  std::vector<TurnRecord> turns;  // in order of completion
  double wall_s = 0;
  int reconnects = 0;
};

std::string LoadTable(const LoadBenchOptions& options, const LoadRun& run);
/// {protocol, conversations, turns, failures, errors, ..., ttft_ms, itl_ms, e2e_ms: {p50, p90, p99}, records: [...]}.
std::string LoadJson(const LoadBenchOptions& options, const LoadRun& run);
/// An SVG chart: percentiles of time to first token and of gaps, over the start times of the turns.
std::string LoadChart(const LoadBenchOptions& options, const LoadRun& run);
std::map<std::string, int> CountErrors(const LoadRun& run);

}  // namespace ringside::client
