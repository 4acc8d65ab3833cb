// Measures speculative decoding on a real model: the decode rate of code edits, summaries and stories with and without
// drafts, alternately in one process, at several batch sizes. Prints one JSON object per measurement; `ratio` is the
// median over the repeats. The answers of both are compared.
//   speculation_bench --model FILE [--threads N] [--tokens 256] [--repeats 5] [--conversations 1,4]
//                     [--temperatures 0,0.8] [--print]
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <future>

#include "engine/engine.h"
#include "engine/model/model.h"
#include "kernels/backend.h"

namespace ringside {
namespace {

struct Options {
  std::string model;
  int threads = 1;
  int64_t tokens = 256;
  int repeats = 5;
  bool prints = false;  // the first answer, to standard error
  std::vector<int64_t> conversations = {1};
  std::vector<double> temperatures = {0};
};

constexpr char kCode[] = R"(def load_orders(path):
    orders = []
    with open(path) as file:
        for line in file:
            name, quantity, price = line.strip().split(",")
            orders.append({"name": name, "quantity": int(quantity), "price": float(price)})
    return orders


def total_price(orders):
    total = 0
    for order in orders:
        total += order["quantity"] * order["price"]
    return total


def most_expensive(orders):
    best = None
    for order in orders:
        if best is None or order["price"] > best["price"]:
            best = order
    return best


def print_report(orders):
    for order in orders:
        print(order["name"], order["quantity"], order["price"])
    print("total", total_price(orders))
    print("most expensive", most_expensive(orders)["name"])
)";

constexpr char kReport[] =
    R"(The harbour of Port Ellery was closed for three days last week after a storm damaged the northern breakwater. The
harbour master, Ines Calder, said that about forty metres of the wall had been washed away and that the repair would
take until the end of the summer. Fishing boats may use the southern entrance, which is narrower and can be passed only
at high tide. Ferries to the islands of Marrow and Little Marrow leave from the town of Sandgate until the repair is
complete, and the ferry company runs a free bus between Port Ellery and Sandgate every hour. The council has set aside
two million pounds for the repair. Half of the money comes from the insurance of the harbour, the rest from the coastal
protection fund. Some residents asked why the breakwater had not been inspected since 2011. Calder said that an
inspection had been planned for this year and that it would now be done for the southern breakwater, too. The fishing
association of Port Ellery expects that its members will lose about a fifth of their income this summer. It has asked
the council to lower the harbour fees for as long as the northern entrance is closed. The council will decide on the
fees at its next meeting on Thursday.)";

struct Task {
  const char* name;
  std::string prompt;
  std::string begun;  // start of the answer: small models seldom copy a file unless they have begun to
};

std::vector<Task> Tasks() {
  const std::string_view code = kCode;
  const std::string begun = fmt::format("```python\n{}", code.substr(0, code.find("\n\n\n") + 3));
  return {{"code_edit",
           fmt::format("Rename the function total_price to sum_of_prices in this file. Print the whole file.\n\n"
                       "```python\n{}```",
                       code),
           begun},
          {"summary", fmt::format("Summarize this report. Quote the important sentences.\n\n{}", kReport), ""},
          {"story", "Write a long story about a lighthouse keeper who finds a letter in a bottle.", ""}};
}

class Sink final : public TokenSink {
 public:
  void OnStart(const CacheReport&) override {}
  void OnTokens(const TokenDelta&) override {}
  void OnEnd(const TurnEnd& end) override { ended_.set_value(end); }
  TurnEnd Wait() { return ended_.get_future().get(); }

 private:
  std::promise<TurnEnd> ended_;
};

double Median(std::vector<double> values) {
  std::ranges::sort(values);
  return values[values.size() / 2];
}

class Bench {
 public:
  Bench(const Options& options, Model& model, const Tokenizer& tokenizer)
      : options_(options), model_(model), tokenizer_(tokenizer) {}

  int Run() {
    for (Engine* engine : {plain_.get(), drafting_.get()}) {
      if (engine == nullptr) return 1;
    }
    bool equal = true;
    for (const int64_t conversations : options_.conversations) {
      for (const double temperature : options_.temperatures) {
        for (const Task& task : Tasks()) equal = Compare(task, conversations, temperature) && equal;
      }
    }
    return equal ? 0 : 1;
  }

 private:
  struct Outcome {
    double tokens_per_s = 0;  // of all conversations
    std::vector<std::vector<TokenId>> answers;
    DraftReport drafts;
  };

  std::unique_ptr<Engine> Start(Speculation speculation) const {
    EngineOptions options{.slots = *std::ranges::max_element(options_.conversations), .memory_len = 2048};
    options.speculation = speculation;
    auto engine = Engine::Start(model_, tokenizer_, options);
    if (engine.ok()) return std::move(*engine);
    fmt::print(stderr, "{}\n", engine.status().ToString());
    return nullptr;
  }

  Outcome Answer(Engine& engine, const Task& task, int64_t conversations, double temperature) {
    std::vector<std::shared_ptr<Sink>> sinks;
    for (int64_t i = 0; i < conversations; ++i) {
      const std::vector<TextPiece> pieces{{"<|im_start|>user\n", true},
                                          {task.prompt, false},
                                          {"<|im_end|>\n<|im_start|>assistant\n", true},
                                          {task.begun, false}};
      TurnRequest turn;
      turn.turn = turn.timeline = ++turns_;
      turn.tokens = tokenizer_.EncodeAll(pieces);
      turn.window = {4, 2048, Eviction::kTurn};
      turn.sampling.temperature = temperature;
      turn.sampling.seed = static_cast<uint64_t>(i);
      turn.stop_ids = model_.tokenizer_data().end_of_turn;
      turn.max_tokens = options_.tokens;
      turn.tenant = fmt::format("tenant {}", turns_);  // prompts are not shared
      turn.sink = sinks.emplace_back(std::make_shared<Sink>());
      if (!engine.Submit(turn).ok()) return {};
    }
    Outcome outcome;
    for (const auto& sink : sinks) {
      const TurnEnd end = sink->Wait();
      outcome.tokens_per_s += static_cast<double>(end.output.size() - 1) / end.times.decode_ms * 1e3;
      outcome.answers.push_back(end.output);
      outcome.drafts.steps += end.drafts.steps;
      outcome.drafts.drafted += end.drafts.drafted;
      outcome.drafts.accepted += end.drafts.accepted;
    }
    for (int64_t i = 0; i < conversations; ++i) engine.Close(turns_ - static_cast<TimelineId>(i));
    return outcome;
  }

  bool Compare(const Task& task, int64_t conversations, double temperature) {
    std::vector<double> plain, drafting, ratios;
    Outcome last;
    bool equal = true;
    for (int repeat = 0; repeat <= options_.repeats; ++repeat) {
      const Outcome without = Answer(*plain_, task, conversations, temperature);
      last = Answer(*drafting_, task, conversations, temperature);
      equal = equal && !last.answers.empty() && last.answers == without.answers;
      if (repeat == 0) continue;
      plain.push_back(without.tokens_per_s);
      drafting.push_back(last.tokens_per_s);
      ratios.push_back(last.tokens_per_s / without.tokens_per_s);
    }
    if (options_.prints && !last.answers.empty()) {
      for (const TokenId id : last.answers.front()) fmt::print(stderr, "{}", tokenizer_.TokenBytes(id));
      fmt::print(stderr, "\n");
    }
    size_t tokens = 0;
    for (const auto& answer : last.answers) tokens += answer.size();
    fmt::print(
        "{{\"name\":\"{}\",\"threads\":{},\"conversations\":{},\"temperature\":{},\"tokens\":{},\"plain_tokens_per_s\":"
        "{:.1f},\"tokens_per_s\":{:.1f},\"ratio\":{:.3f},\"steps\":{},\"drafted\":{},\"accepted\":{},\"equal\":{}}}\n",
        task.name, options_.threads, conversations, temperature, tokens, Median(plain), Median(drafting),
        Median(ratios), last.drafts.steps, last.drafts.drafted, last.drafts.accepted, equal);
    return equal;
  }

  const Options& options_;
  Model& model_;
  const Tokenizer& tokenizer_;
  TimelineId turns_ = 0;
  std::unique_ptr<Engine> plain_ = Start(Speculation::kOff), drafting_ = Start(Speculation::kNgram);
};

int Main(int argc, char** argv) {
  Options options;
  CLI::App app("Measures speculative decoding.");
  app.add_option("--model", options.model)->required();
  app.add_option("--threads", options.threads);
  app.add_option("--tokens", options.tokens);
  app.add_option("--repeats", options.repeats)->check(CLI::Range(1, 1000));
  app.add_flag("--print", options.prints);
  app.add_option("--conversations", options.conversations)->delimiter(',');
  app.add_option("--temperatures", options.temperatures)->delimiter(',');
  CLI11_PARSE(app, argc, argv);
  auto backend = MakeCpuBackend({.threads = options.threads});
  if (!backend.ok()) return fmt::print(stderr, "{}\n", backend.status().ToString()), 1;
  auto model = Model::Load(options.model, **backend);
  if (!model.ok()) return fmt::print(stderr, "{}\n", model.status().ToString()), 1;
  auto tokenizer = MakeTokenizer((*model)->tokenizer_data());
  if (!tokenizer.ok()) return fmt::print(stderr, "{}\n", tokenizer.status().ToString()), 1;
  std::setvbuf(stdout, nullptr, _IOLBF, 0);
  return Bench(options, **model, **tokenizer).Run();
}

}  // namespace
}  // namespace ringside

int main(int argc, char** argv) { return ringside::Main(argc, argv); }
