// The program `ringside-bench`.
#include <cstdio>
#include <exception>

#include "clients/bench/bench.h"
#include "clients/bench/bench_options.h"

namespace ringside::client {
namespace {

int Main(const std::vector<std::string>& args) {
  const BenchOptions options = ParseBenchOptions(args);
  switch (options.verb) {
    case BenchOptions::Verb::kNone:
      return PrintOutcome(options.outcome);
    case BenchOptions::Verb::kAppend:
      return BenchAppend(options.server, options.append);
    case BenchOptions::Verb::kLoad:
      return BenchLoad(options.server, options.load);
  }
  return kBadCommand;
}

}  // namespace
}  // namespace ringside::client

int main(int argc, char** argv) {
  try {
    return ringside::client::Main({argv + 1, argv + argc});
  } catch (const std::exception& error) {
    std::fprintf(stderr, "ringside-bench: %s\n", error.what());
    return ringside::kCommandFailed;
  }
}
