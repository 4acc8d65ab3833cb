// Benchmarks a running server from outside, over the same protocol as a chat. Each function prints a table to standard
// output and returns an exit code: 0, or 1 with a message on standard error.
#pragma once

#include <string>

#include "clients/bench/protocol.h"
#include "clients/wire/server_access.h"

namespace ringside::client {

struct AppendBenchOptions {
  int rounds = 9;
  int history_tokens = 1000, turn_tokens = 32;
  std::string json_path;  // "" = none
};

struct LoadBenchOptions {
  Protocol protocol = Protocol::kRingside;
  std::string model = {};  // "" = the server's first model
  int conversations = 8, turns = 4;
  int warm_up = 0;       // conversations run before the measurement, not counted
  double rate = 0;       // arrivals per second (Poisson process); 0 = all at once
  double think_s = 1.0;  // mean of an exponential distribution
  int prompt_words = 30, max_tokens = 64;
  bool ignore_eos = false;
  std::string dataset_path = {};  // "" = synthetic text
  double timeout_s = 600;         // per turn
  unsigned seed = 1;
  std::string json_path = {}, svg_path = {};  // "" = none
};

/// Time to first token of a short turn on a long conversation, against a fresh conversation with everything in one
/// prompt. Alternates the two; reports medians and their ratio.
int BenchAppend(const ServerAccess& server, const AppendBenchOptions& options);
/// Many concurrent conversations of several turns with think time, started at once or at a fixed arrival rate
/// independent of the server; over our protocol, or over one that other servers support too. Reports time to first
/// token, gaps between pieces of text, turn times, cached tokens, and errors by kind.
int BenchLoad(const ServerAccess& server, const LoadBenchOptions& options);

}  // namespace ringside::client
