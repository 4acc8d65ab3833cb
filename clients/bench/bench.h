// Measures a running server from outside, over the same wire as a chat. Each function prints a table to standard output
// and returns an exit code: 0, or 1 with a sentence on standard error.
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
  std::string model = {};  // "" = the server's first
  int conversations = 8, turns = 4;
  int warm_up = 0;       // conversations that are held before and not counted
  double rate = 0;       // conversations begun a second, at random (Poisson); 0 = all at once
  double think_s = 1.0;  // mean, exponentially distributed
  int prompt_words = 30, max_tokens = 64;
  bool ignore_eos = false;
  std::string dataset_path = {};  // "" = words made up
  double timeout_s = 600;         // of a turn
  unsigned seed = 1;
  std::string json_path = {}, svg_path = {};  // "" = none
};

/// Time to first token of a short turn on a long conversation, against a fresh conversation that gets everything in one
/// prompt. Alternating, medians and their ratio.
int BenchAppend(const ServerAccess& server, const AppendBenchOptions& options);
/// Many conversations at once, several turns each, with pauses for thought, begun at once or at a rate of their own
/// whatever the server does; in our protocol, or in one that other servers speak too. Time to first token, between
/// pieces of text, of whole turns; tokens found in the cache; errors by kind.
int BenchLoad(const ServerAccess& server, const LoadBenchOptions& options);

}  // namespace ringside::client
