#include "clients/bench/bench_options.h"

#include <CLI/CLI.hpp>

#include "clients/program/server_options.h"

namespace ringside::client {
namespace {

void AddAppend(CLI::App& bench, BenchOptions& options) {
  CLI::App* append = bench.add_subcommand(
      "append", "Time to first token of a short turn on a long conversation, against recomputing everything");
  AddServerOptions(*append, options.server);
  append->add_option("--rounds", options.append.rounds, "Measurements of each kind")->check(CLI::Range(1, 1000));
  append->add_option("--history-tokens", options.append.history_tokens, "Tokens before the turn")
      ->check(CLI::Range(64, 1 << 20));
  append->add_option("--turn-tokens", options.append.turn_tokens, "Tokens of the turn")->check(CLI::Range(8, 1 << 16));
  append->add_option("--json", options.append.json_path, "Also write the figures to this file")->type_name("PATH");
}

void AddLoad(CLI::App& bench, BenchOptions& options, std::string& protocol) {
  CLI::App* load = bench.add_subcommand(
      "load", "Many concurrent conversations with think time, on a ringside-server or another server");
  AddServerOptions(*load, options.server);
  load->add_option("--protocol", protocol, "ringside: the native protocol; other servers support the rest too")
      ->check(CLI::IsMember(ProtocolNames()));
  load->add_option("--model", options.load.model, "Model to request [the server's first]");
  load->add_option("-n,--conversations", options.load.conversations, "Number of conversations")
      ->check(CLI::Range(1, 100000));
  load->add_option("--rate", options.load.rate, "Conversations started per second (Poisson); 0: all at once")
      ->check(CLI::Range(0.0, 1e6));
  load->add_option("--warm-up", options.load.warm_up, "Warm-up conversations, not counted")
      ->check(CLI::Range(0, 100000));
  load->add_option("--dataset", options.load.dataset_path,
                   "JSON file of recorded conversations (ShareGPT format) whose user messages are sent")
      ->type_name("PATH");
  load->add_flag("--ignore-eos", options.load.ignore_eos, "Answers of exactly --max-tokens, if the server supports it");
  load->add_option("--timeout", options.load.timeout_s, "Timeout of a turn, seconds")
      ->check(CLI::Range(0.001, 86400.0));
  load->add_option("--turns", options.load.turns, "Turns per conversation")->check(CLI::Range(1, 10000));
  load->add_option("--think", options.load.think_s, "Mean think time between turns, seconds")
      ->check(CLI::Range(0.0, 3600.0));
  load->add_option("--prompt-words", options.load.prompt_words, "Median words per turn")->check(CLI::Range(1, 10000));
  load->add_option("--max-tokens", options.load.max_tokens, "Longest answer")->check(CLI::Range(1, 100000));
  load->add_option("--seed", options.load.seed, "Random seed of lengths, words and think times");
  load->add_option("--json", options.load.json_path, "Also write the figures, turn by turn, to this file")
      ->type_name("PATH");
  load->add_option("--svg", options.load.svg_path, "Also write a chart of percentiles over time to this file")
      ->type_name("PATH");
}

BenchOptions Ended(CommandOutcome outcome) {
  BenchOptions options;
  options.outcome = std::move(outcome);
  return options;
}

}  // namespace

BenchOptions ParseBenchOptions(const std::vector<std::string>& args) {
  BenchOptions options;
  std::string protocol = "ringside";
  CLI::App bench("Benchmark a running server", "ringside-bench");
  bench.require_subcommand(1);
  bench.set_version_flag("--version", "ringside-bench " RINGSIDE_VERSION);
  AddAppend(bench, options);
  AddLoad(bench, options, protocol);
  if (args == std::vector<std::string>{"--describe"}) {
    return Ended({.to_stdout = DescribeProgram(bench, RINGSIDE_VERSION)});
  }
  if (auto outcome = ParseCommand(bench, args)) return Ended(*std::move(outcome));
  const Outcome<Done> settled = SettleServer(options.server);
  if (!settled) return Ended({kBadCommand, "", "ringside-bench: " + settled.failure().message + "\n"});
  options.load.protocol = ProtocolNamed(protocol).value_or(Protocol::kRingside);
  options.verb = bench.got_subcommand("append") ? BenchOptions::Verb::kAppend : BenchOptions::Verb::kLoad;
  return options;
}

}  // namespace ringside::client
