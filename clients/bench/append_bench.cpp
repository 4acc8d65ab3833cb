#include <algorithm>
#include <cstdio>
#include <fstream>
#include <nlohmann/json.hpp>
#include <utility>

#include "clients/bench/bench.h"
#include "clients/bench/percentiles.h"
#include "clients/bench/timed_turn.h"
#include "clients/bench/workload.h"

namespace ringside::client {
namespace {

constexpr int kProbeWords = 100;
constexpr int kAnswerTokens = 4;
constexpr int kHistoryAnswerTokens = 16;
constexpr int kTurnMarkupTokens = 8;  // approximate template overhead of a turn

std::vector<std::pair<std::string, std::string>> GreedyFields(int max_tokens) {
  return {{"temperature", "0"}, {"max_output_tokens", std::to_string(max_tokens)}};
}

/// State of the measurement: a conversation with one exchange, and its text for sending it again as one prompt.
class AppendBench {
 public:
  AppendBench(const ServerAccess& server, const AppendBenchOptions& options)
      : options_(options), client_(server), text_(1) {}

  Outcome<Done> Run() {
    Outcome<Done> prepared = Prepare();
    if (!prepared) return prepared;
    // The first round warms the caches and is not counted.
    for (int round = -1; round < options_.rounds; ++round) {
      const std::string turn = text_.Words(turn_words_);
      const Outcome<TimedTurn> append = Append(turn);
      if (!append) return append.failure();
      const Outcome<TimedTurn> whole = Whole(turn);
      if (!whole) return whole.failure();
      if (round < 0) continue;
      append_ms_.push_back(append->ttft_ms);
      whole_ms_.push_back(whole->ttft_ms);
      append_report_ = append->report;
      whole_report_ = whole->report;
      std::printf("round %2d: append %8.1f ms, whole %8.1f ms\n", round + 1, append->ttft_ms, whole->ttft_ms);
      std::fflush(stdout);
    }
    Report();
    return DeleteConversation(client_.http(), conversation_);
  }

 private:
  Outcome<int64_t> CountTokens(int words) {
    const Outcome<std::string> probe = CreateConversation(client_.http());
    if (!probe) return probe.failure();
    TurnRequest turn{.conversation = *probe, .input = {{"user", text_.Words(words)}}, .fields = GreedyFields(1)};
    const Outcome<TimedTurn> timed = RunTimedTurn(client_, std::move(turn));
    const Outcome<Done> deleted = DeleteConversation(client_.http(), *probe);
    if (!timed) return timed.failure();
    if (!deleted) return deleted.failure();
    return timed->report.input_tokens;
  }

  Outcome<Done> Prepare() {
    const Outcome<int64_t> one = CountTokens(kProbeWords);
    if (!one) return one.failure();
    const Outcome<int64_t> two = CountTokens(2 * kProbeWords);
    if (!two) return two.failure();
    const double per_word = std::max(0.1, static_cast<double>(*two - *one) / kProbeWords);
    const double markup = static_cast<double>(*one) - per_word * kProbeWords;
    const double history = options_.history_tokens - markup - kHistoryAnswerTokens;
    turn_words_ = std::max(1, static_cast<int>((options_.turn_tokens - kTurnMarkupTokens) / per_word));
    history_text_ = text_.Words(std::max(1, static_cast<int>(history / per_word)));

    const Outcome<std::string> made = CreateConversation(client_.http());
    if (!made) return made.failure();
    conversation_ = *made;
    TurnRequest turn{.conversation = conversation_,
                     .input = {{"user", history_text_}},
                     .fields = GreedyFields(kHistoryAnswerTokens)};
    const Outcome<TimedTurn> timed = RunTimedTurn(client_, std::move(turn));
    if (!timed) return timed.failure();
    history_answer_ = timed->text;
    history_tokens_ = timed->report.input_tokens + timed->report.output_tokens;
    const Outcome<std::vector<InputMessage>> items = GetItems(client_.http(), conversation_);
    if (!items) return items.failure();
    history_items_ = static_cast<int64_t>(items->size());
    return Done{};
  }

  Outcome<TimedTurn> Append(const std::string& text) {
    TurnRequest turn{.conversation = conversation_, .input = {{"user", text}}, .fields = GreedyFields(kAnswerTokens)};
    Outcome<TimedTurn> timed = RunTimedTurn(client_, std::move(turn));
    const Outcome<Done> rewound = RunRewind(client_, conversation_, history_items_);
    if (timed && !rewound) return rewound.failure();
    return timed;
  }

  Outcome<TimedTurn> Whole(const std::string& text) {
    const Outcome<std::string> fresh = CreateConversation(client_.http());
    if (!fresh) return fresh.failure();
    TurnRequest turn{.conversation = *fresh, .fields = GreedyFields(kAnswerTokens)};
    turn.input = {{"user", history_text_}, {"assistant", history_answer_}, {"user", text}};
    Outcome<TimedTurn> timed = RunTimedTurn(client_, std::move(turn));
    const Outcome<Done> deleted = DeleteConversation(client_.http(), *fresh);
    if (timed && !deleted) return deleted.failure();
    return timed;
  }

  void Report() const {
    const double append = Median(append_ms_), whole = Median(whole_ms_);
    std::printf("\nhistory of %lld tokens, %d rounds, median time to first token\n",
                static_cast<long long>(history_tokens_), options_.rounds);
    std::printf("  append to the conversation   %8.1f ms  (%lld tokens computed, %lld cached, source %s)\n", append,
                static_cast<long long>(append_report_.tokens_computed),
                static_cast<long long>(append_report_.cached_tokens), append_report_.source.c_str());
    std::printf("  everything in one prompt     %8.1f ms  (%lld tokens computed, %lld cached, source %s)\n", whole,
                static_cast<long long>(whole_report_.tokens_computed),
                static_cast<long long>(whole_report_.cached_tokens), whole_report_.source.c_str());
    std::printf("  ratio                        %8.1f x\n", append > 0 ? whole / append : 0);
    if (options_.json_path.empty()) return;
    const nlohmann::ordered_json json = {{"history_tokens", history_tokens_},
                                         {"turn_tokens_computed", append_report_.tokens_computed},
                                         {"whole_tokens_computed", whole_report_.tokens_computed},
                                         {"rounds", options_.rounds},
                                         {"append_ttft_ms", append_ms_},
                                         {"whole_ttft_ms", whole_ms_},
                                         {"append_ttft_ms_median", append},
                                         {"whole_ttft_ms_median", whole},
                                         {"ratio", append > 0 ? whole / append : 0}};
    std::ofstream(options_.json_path) << json.dump(2) << '\n';
  }

  const AppendBenchOptions& options_;
  ChatClient client_;
  Workload text_;
  int turn_words_ = 0;
  std::string conversation_, history_text_, history_answer_;
  int64_t history_tokens_ = 0, history_items_ = 0;
  std::vector<double> append_ms_, whole_ms_;
  TurnReport append_report_, whole_report_;
};

}  // namespace

int BenchAppend(const ServerAccess& server, const AppendBenchOptions& options) {
  const Outcome<Done> run = AppendBench(server, options).Run();
  if (run) return 0;
  std::fprintf(stderr, "ringside-bench: %s\n", run.failure().message.c_str());
  return 1;
}

}  // namespace ringside::client
