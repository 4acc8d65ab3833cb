// What users ask, and when: conversations of turns with pauses between them, as plain values drawn from a seed. Any
// thread.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/status.h"

namespace ringside {

struct PlannedTurn {
  double pause_ms = 0;  // after the end of the turn before it
  int64_t input = 0;    // new tokens
  int64_t output = 0;   // tokens written
};

struct PlannedConversation {
  double begin_ms = 0;  // of its first turn
  int64_t user = 0;
  std::vector<PlannedTurn> turns;
};

struct LoadOptions {
  int64_t conversations = 1, turns = 4, users = 1;
  /// together: all begin at once. spread: evenly at random over spread_ms. poisson: per_second of them on average.
  /// bursts: `burst` at once, every spread_ms. crowd: all but the last at once, one user's; the last after spread_ms,
  /// another user's.
  std::string arrivals = "together";
  double spread_ms = 0, per_second = 1;
  int64_t burst = 16;
  double pause_ms = 0;  // between turns: 0.5 to 1.5 times as much
  /// fixed: `first` tokens, then `add`, `write` written. sharegpt: people's questions and a model's answers
  /// (log-normal, means of 161 and 338 tokens). long: fixed, and every tenth conversation begins with `long_first`
  /// tokens.
  std::string lengths = "fixed";
  int64_t first = 1024, add = 64, write = 128, long_first = 8192;
  uint64_t seed = 7;
};

/// kInvalidArgument for a name that does not exist.
Result<std::vector<PlannedConversation>> PlanLoad(const LoadOptions& options);

}  // namespace ringside
