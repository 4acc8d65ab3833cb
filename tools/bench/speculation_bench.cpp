// Measures speculative decoding: the decode rate of code edits, summaries and stories with and without drafts,
// alternately in one process, at several batch sizes. Prints one JSON object per measurement; `ratio` is the median
// over the repeats. The answers of both are compared.
//   speculation_bench --model PATH [--device cuda [--dtype bf16] [--quantization fp8] [--deterministic]] [--threads N]
//                     [--load-format dummy --script TOKENIZER] [--tokens 256] [--repeats 5] [--conversations 1,4]
//                     [--temperatures 0,0.8] [--speculate ngram|mtp] [--layer-acceptance P] [--print]
// With --script the model's weights may be random: every step runs as always, but the answers are the texts of this
// file, in the tokens of that tokenizer (a model file or folder), so drafts are accepted as often as in such a text.
// A token of a draft layer, which always runs, then is the text's with the probability of --layer-acceptance.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <deque>
#include <future>
#include <random>

#include "engine/engine.h"
#include "engine/model/model.h"
#include "engine/model/weights/model_files.h"
#include "kernels/backend.h"
#include "kernels/formats/row_quantization.h"
#include "tests/engine/forwarding_network.h"
#include "tools/bench/must_have.h"

namespace ringside {
namespace {

struct Options {
  std::string model, script, device = "cpu", dtype = "bf16", quantization = "file", load_format = "auto",
                             speculate = "ngram";
  bool deterministic = false;
  int threads = 1;
  int64_t tokens = 256;
  double layer_acceptance = 0.7;
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

constexpr char kSummary[] =
    R"(A storm damaged the northern breakwater of Port Ellery, and the harbour was closed for three days. According to
the harbour master, Ines Calder, "about forty metres of the wall had been washed away and that the repair would take
until the end of the summer". Until then, "fishing boats may use the southern entrance, which is narrower and can be
passed only at high tide", and "ferries to the islands of Marrow and Little Marrow leave from the town of Sandgate". The
council pays two million pounds: "half of the money comes from the insurance of the harbour, the rest from the coastal
protection fund". Fishermen "will lose about a fifth of their income this summer" and want lower fees; the council will
decide "at its next meeting on Thursday".)";

constexpr char kStory[] =
    R"(Every evening at six, Tomas climbed the hundred and twelve steps to the lamp and counted them aloud, so that the
tower would know he had come. He had done it for thirty years. On the first night of November the sea was so calm that
he could hear the gulls shifting in their sleep, and when he looked down at the rocks he saw something green roll over
and blink. It was a bottle, stopped with wax and tar. Inside lay one sheet, folded four times, written in pencil by a
hand that pressed too hard. It said: I keep a light as well, on the other side of the water. Nobody has answered me yet.
If you can see a white flash, then two short ones, please do the same. Tomas read it three times under the lamp. Then he
fetched the old shutter from the store room, oiled its hinge and waited until it was fully dark. One long, two short. He
felt foolish, like a boy who waves at trains. For a long while nothing happened but the waves. At last, low on the
horizon where the charts showed only fog, a point of light opened, closed, and opened twice more, very quickly, as if
somebody over there were laughing.)";

struct Task {
  const char* name;
  std::string prompt;
  std::string begun;   // start of the answer: small models seldom copy a file unless they have begun to
  std::string script;  // the rest of the answer with --script
};

std::string Replaced(std::string text, std::string_view from, std::string_view to) {
  for (size_t at = text.find(from); at != std::string::npos; at = text.find(from, at + to.size())) {
    text.replace(at, from.size(), to);
  }
  return text;
}

std::vector<Task> Tasks() {
  const std::string_view code = kCode;
  const size_t rest = code.find("\n\n\n") + 3;
  const std::string begun = fmt::format("```python\n{}", code.substr(0, rest));
  const std::string edited = Replaced(std::string(code.substr(rest)), "total_price", "sum_of_prices") + "```";
  return {
      {"code_edit",
       fmt::format("Rename the function total_price to sum_of_prices in this file. Print the whole file.\n\n"
                   "```python\n{}```",
                   code),
       begun, edited},
      {"summary", fmt::format("Summarize this report. Quote the important sentences.\n\n{}", kReport), "", kSummary},
      {"story", "Write a long story about a lighthouse keeper who finds a letter in a bottle.", "", kStory}};
}

/// A network whose sampled tokens are those of a text, wherever a timeline has reached it. So are those of its draft
/// layer, with a probability of `acceptance`.
class ScriptedNetwork final : public ForwardingNetwork {
 public:
  ScriptedNetwork(Network& network, double acceptance) : ForwardingNetwork(network), accepted_(acceptance) {}
  /// Prompt and answer of all turns to come.
  void SetTimeline(std::vector<TokenId> timeline) { timeline_ = std::move(timeline); }

  void Finish(std::span<SampledToken> chosen) override {
    ForwardingNetwork::Finish(chosen);
    for (size_t i = 0; i < chosen.size(); ++i) Replace(positions_.front()[i], &chosen[i]);
    positions_.pop_front();
  }
  void SampleRows(std::span<const size_t> rows, std::span<const RowSamplingParams> choices,
                  std::span<SampledToken> sampled) override {
    ForwardingNetwork::SampleRows(rows, choices, sampled);
    for (size_t i = 0; i < rows.size(); ++i) Replace(positions_.back()[rows[i]], &sampled[i]);
    has_finish_ = false;
  }
  std::vector<std::vector<TokenId>> Draft(std::span<const DraftPart> parts) override {
    std::vector<std::vector<TokenId>> drafted = ForwardingNetwork::Draft(parts);
    for (size_t i = 0; i < parts.size(); ++i) {
      auto next = static_cast<size_t>(parts[i].cache->ring().next()) + 1;
      for (TokenId& token : drafted[i]) {
        if (next >= timeline_.size()) break;
        token = accepted_(random_) ? timeline_[next] : kWrong + timeline_[next] % 2;
        ++next;
      }
    }
    return drafted;
  }

 private:
  void Before(std::span<const StepPart> parts) override {
    if (!std::exchange(has_finish_, true)) positions_.pop_back();
    std::vector<int64_t> positions;
    for (const StepPart& part : parts) {
      const int64_t end = part.cache->ring().next() + std::ssize(part.tokens);
      const int64_t first = part.logits == StepPart::Logits::kAll    ? end - std::ssize(part.tokens)
                            : part.logits == StepPart::Logits::kLast ? end - 1
                                                                     : end;
      for (int64_t position = first; position < end; ++position) positions.push_back(position);
    }
    positions_.push_back(std::move(positions));
  }
  void Replace(int64_t position, SampledToken* token) const {
    const auto next = static_cast<size_t>(position + 1);
    if (next < timeline_.size()) token->id = timeline_[next];
  }

  static constexpr TokenId kWrong = 1000;  // not special

  std::bernoulli_distribution accepted_;
  std::mt19937_64 random_{1};
  std::vector<TokenId> timeline_;
  std::deque<std::vector<int64_t>> positions_;  // of the rows of logits of each step in flight
  bool has_finish_ = true;                      // the last one has no SampleRows
};

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
  Bench(const Options& options, ScriptedNetwork& network, const Tokenizer& tokenizer, std::vector<TokenId> stop_ids)
      : options_(options), network_(network), tokenizer_(tokenizer), stop_ids_(std::move(stop_ids)) {}

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
    options.kv_dtype = options_.device == "cpu" || options_.dtype == "f16" ? DType::kF16 : DType::kBF16;
    auto engine = Engine::Start(network_, tokenizer_, options);
    if (engine.ok()) return std::move(*engine);
    fmt::print(stderr, "{}\n", engine.status().ToString());
    return nullptr;
  }

  Outcome Answer(Engine& engine, const Task& task, int64_t conversations, double temperature) {
    std::vector<std::shared_ptr<Sink>> sinks;
    const std::vector<TextPiece> pieces{{"<|im_start|>user\n", true},
                                        {task.prompt, false},
                                        {"<|im_end|>\n<|im_start|>assistant\n", true},
                                        {task.begun, false}};
    const std::vector<TokenId> prompt = tokenizer_.EncodeAll(pieces);
    int64_t tokens = options_.tokens;
    if (!options_.script.empty()) {
      const TextPiece script{task.script, false};
      std::vector<TokenId> timeline = tokenizer_.EncodeAll({&script, 1});
      tokens = std::min(tokens, std::ssize(timeline));
      timeline.insert(timeline.begin(), prompt.begin(), prompt.end());
      network_.SetTimeline(std::move(timeline));
    }
    for (int64_t i = 0; i < conversations; ++i) {
      TurnRequest turn;
      turn.turn = turn.timeline = ++turns_;
      turn.tokens = prompt;
      turn.window = {4, 2048, Eviction::kTurn};
      turn.sampling.temperature = temperature;
      turn.sampling.seed = static_cast<uint64_t>(i);
      turn.stop_ids = stop_ids_;
      turn.max_tokens = tokens;
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
        "{{\"name\":\"{}\",\"device\":\"{}\",\"threads\":{},\"conversations\":{},\"temperature\":{},\"tokens\":{},"
        "\"plain_tokens_per_s\":"
        "{:.1f},\"tokens_per_s\":{:.1f},\"ratio\":{:.3f},\"steps\":{},\"drafted\":{},\"accepted\":{},\"equal\":{}}}\n",
        task.name, options_.device, options_.threads, conversations, temperature, tokens, Median(plain),
        Median(drafting), Median(ratios), last.drafts.steps, last.drafts.drafted, last.drafts.accepted, equal);
    return equal;
  }

  const Options& options_;
  ScriptedNetwork& network_;
  const Tokenizer& tokenizer_;
  const std::vector<TokenId> stop_ids_;
  TimelineId turns_ = 0;
  std::unique_ptr<Engine> plain_ = Start(Speculation::kOff),
                          drafting_ = Start(options_.speculate == "mtp" ? Speculation::kMtp : Speculation::kNgram);
};

std::unique_ptr<Backend> MakeBackend(const Options& options) {
  if (options.device == "cpu") return MustHave(MakeCpuBackend({.threads = options.threads}));
  return MustHave(MakeCudaBackend({.dtype = options.dtype == "f16" ? DType::kF16 : DType::kBF16,
                                   .quantization = QuantizationNamed(options.quantization),
                                   .deterministic = options.deterministic}));
}

int Main(int argc, char** argv) {
  Options options;
  CLI::App app("Measures speculative decoding.");
  app.add_option("--model", options.model)->required();
  app.add_option("--device", options.device)->check(CLI::IsMember({"cpu", "cuda"}));
  app.add_option("--dtype", options.dtype)->check(CLI::IsMember({"bf16", "f16"}));
  app.add_option("--quantization", options.quantization)->check(CLI::IsMember({"file", "none", "int8", "fp8"}));
  app.add_option("--load-format", options.load_format)->check(CLI::IsMember({"auto", "dummy"}));
  app.add_option("--script", options.script, "A model whose tokenizer encodes prompts and answers");
  app.add_option("--speculate", options.speculate)->check(CLI::IsMember({"ngram", "mtp"}));
  app.add_option("--layer-acceptance", options.layer_acceptance)->check(CLI::Range(0.0, 1.0));
  app.add_flag("--deterministic", options.deterministic);
  app.add_option("--threads", options.threads);
  app.add_option("--tokens", options.tokens);
  app.add_option("--repeats", options.repeats)->check(CLI::Range(1, 1000));
  app.add_flag("--print", options.prints);
  app.add_option("--conversations", options.conversations)->delimiter(',');
  app.add_option("--temperatures", options.temperatures)->delimiter(',');
  CLI11_PARSE(app, argc, argv);
  const std::unique_ptr<Backend> backend = MakeBackend(options);
  Backend* const device = backend.get();
  const LoadFormat format = options.load_format == "dummy" ? LoadFormat::kDummy : LoadFormat::kAuto;
  const std::unique_ptr<Model> model = MustHave(Model::Load(
      options.model, {&device, 1}, 1, format, options.speculate == "mtp" ? DraftLayer::kPlan : DraftLayer::kSkip));
  MustBeOk(model->Reserve(EngineOptions{}.step_tokens));
  const TokenizerData data =
      options.script.empty() ? model->tokenizer_data() : MustHave(OpenModelFiles(options.script)).tokenizer;
  const std::unique_ptr<Tokenizer> tokenizer = MustHave(MakeTokenizer(data));
  ScriptedNetwork network(*model, options.layer_acceptance);
  std::setvbuf(stdout, nullptr, _IOLBF, 0);
  return Bench(options, network, *tokenizer, data.end_of_turn).Run();
}

}  // namespace
}  // namespace ringside

int main(int argc, char** argv) { return ringside::Main(argc, argv); }
