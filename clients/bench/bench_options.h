// The command line of ringside-bench. Parsed once in main; a plain value.
#pragma once

#include <string>
#include <vector>

#include "base/cli/command_line.h"
#include "clients/bench/bench.h"
#include "clients/wire/server_access.h"

namespace ringside::client {

struct BenchOptions {
  enum class Verb { kNone, kAppend, kLoad };
  Verb verb = Verb::kNone;
  ServerAccess server;
  AppendBenchOptions append;
  LoadBenchOptions load;
  CommandOutcome outcome;  // if verb is kNone
};

/// `args`: without the program's name. Never fails: see BenchOptions::outcome.
BenchOptions ParseBenchOptions(const std::vector<std::string>& args);

}  // namespace ringside::client
