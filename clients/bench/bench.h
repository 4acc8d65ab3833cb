// Measures a running server from outside, over the same wire as a chat. Each function prints a table to standard output
// and returns an exit code: 0, or 1 with a sentence on standard error.
#pragma once

#include <string>

#include "clients/wire/server_access.h"

namespace ringside::client {

struct AppendBenchOptions {
  int rounds = 9;
  int history_tokens = 1000, turn_tokens = 32;
  std::string json_path;  // "" = none
};

struct LoadBenchOptions {
  int conversations = 8, turns = 4;
  double think_s = 1.0;  // mean, exponentially distributed
  int prompt_words = 30, max_tokens = 64;
  unsigned seed = 1;
  std::string json_path;
};

/// Time to first token of a short turn on a long conversation, against a fresh conversation that gets everything in one
/// prompt. Alternating, medians and their ratio.
int BenchAppend(const ServerAccess& server, const AppendBenchOptions& options);
/// Many conversations at once, several turns each, with pauses for thought: TTFT, time between deltas, tokens per
/// second, percentiles of each.
int BenchLoad(const ServerAccess& server, const LoadBenchOptions& options);

}  // namespace ringside::client
