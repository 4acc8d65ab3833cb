// Users' requests and their times: conversations of turns with pauses, as plain values generated from a seed. THREAD:
// any.
#pragma once

#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "base/status.h"

namespace ringside {

struct PlannedTurn {
  double pause_ms = 0;  // after the end of the previous turn
  int64_t input = 0;    // new tokens
  int64_t output = 0;   // generated tokens
};

struct PlannedConversation {
  double begin_ms = 0;  // of its first turn
  int64_t user = 0;
  std::vector<PlannedTurn> turns;
  std::string role;           // groups conversations in the report
  int64_t shared = 0;         // first tokens of its first input: equal in all conversations
  bool is_stateless = false;  // each turn is a conversation without history
  double until_ms = std::numeric_limits<double>::infinity();  // no turn starts later
};

struct LoadOptions {
  int64_t conversations = 1, turns = 4, users = 1;
  /// together: all start at once. spread: uniformly at random over spread_ms. poisson: per_second starts on average.
  /// bursts: `burst` at once, every spread_ms. crowd: all but the last at once, from one user; the last after
  /// spread_ms, from another user.
  std::string arrivals = "together";
  double spread_ms = 0, per_second = 1;
  int64_t burst = 16;
  double pause_ms = 0;  // between turns: 0.5 to 1.5 times this
  /// fixed: `first` tokens, then `add`, with `write` generated. sharegpt: human questions and model answers
  /// (log-normal, means of 161 and 338 tokens). long: fixed, but every tenth conversation begins with `long_first`
  /// tokens.
  std::string lengths = "fixed";
  int64_t first = 1024, add = 64, write = 128, long_first = 8192;
  uint64_t seed = 7;
  /// A load of several roles or with a time limit instead: mixed (64 interactive conversations next to 8 long prompts
  /// at a time), agents (32 conversations with a common prefix), requests (`per_second` of 512 to 2,048 tokens). Empty
  /// = none. Uses `seconds`, `per_second` and `seed` only.
  std::string scenario;
  double seconds = 30;
};

/// kInvalidArgument for an unknown name.
Result<std::vector<PlannedConversation>> PlanLoad(const LoadOptions& options);

}  // namespace ringside
