// Measures the cost of a format: compilation, the mask per token (mean and 99th percentile, for answers with new states
// and for later ones), and constrained answers of the model against unconstrained ones; tools count as formats. Prints
// one JSON object per format. With --hostile it compiles the most expensive tools instead and reports each one's cost.
//   grammar_bench --model MODEL.gguf [--device cpu|cuda] [--conversations 1] [--answers 20] [--threads 2]
//                 [--tokens 200] [--hostile]
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <ctime>
#include <fstream>
#include <random>

#include "engine/engine.h"
#include "engine/grammar/grammar_cache.h"
#include "engine/model/model.h"
#include "kernels/backend.h"
#include "tests/engine/grammar/hostile_tools.h"
#include "tools/bench/must_have.h"

namespace ringside {
namespace {

double NowUs() {
  return std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

struct Named {
  const char* name;
  AnswerFormat format;
};

AnswerFormat Calling(std::string tools, bool must_call = false, std::vector<bool> strict = {}) {
  AnswerFormat format{.param = "format"};
  format.calls = std::make_shared<const ToolCallRules>(
      ToolCallRules{.tools = std::move(tools), .strict = std::move(strict), .must_call = must_call});
  return format;
}

std::string FewTools() {
  return Repeated(8, "\n", [](size_t i) {
    return ToolOf(i, ObjectOf(R"("city":{"type":"string"},"days":{"type":"integer","minimum":0,"maximum":14})",
                              R"(,"required":["city"],"additionalProperties":false)"));
  });
}

std::vector<Named> Formats() {
  const auto schema = [](const char* text) { return AnswerFormat{AnswerFormat::Kind::kJsonSchema, text, "format"}; };
  return {
      {"any object", {AnswerFormat::Kind::kJsonObject, "", "format"}},
      {"person",
       schema(
           R"({"type":"object","properties":{"name":{"type":"string"},"age":{"type":"integer","minimum":0,"maximum":150},
          "email":{"type":"string","format":"email"},"tags":{"type":"array","items":{"type":"string"}}},
          "required":["name","age","email","tags"],"additionalProperties":false})")},
      {"events",
       schema(
           R"({"type":"array","minItems":3,"items":{"type":"object","properties":{"title":{"type":"string","maxLength":80},
          "when":{"type":"string","format":"date-time"},"kind":{"enum":["meeting","call","trip","other"]},
          "note":{"anyOf":[{"type":"string","minLength":1,"maxLength":400},{"type":"null"}]}},
          "required":["title","when","kind","note"],"additionalProperties":false}})")},
      {"tree", schema(R"({"$ref":"#/$defs/n","$defs":{"n":{"type":"object","properties":{"value":{"type":"string"},
          "children":{"type":"array","items":{"$ref":"#/$defs/n"}}},"required":["value","children"],"additionalProperties":false}}})")},
      {"long text",
       schema(
           R"({"type":"object","properties":{"text":{"type":"string","minLength":2000,"maxLength":3000}},"required":["text"]})")},
      {"8 tools, text or calls", Calling(FewTools())},
      {"8 tools, calls", Calling(FewTools(), true)},
      {"128 large tools, text or calls", Calling(LargeTools())},
      {"128 large tools, calls", Calling(LargeTools(), true)},
  };
}

struct Times {
  std::vector<double> us;
  double mean() const {
    double sum = 0;
    for (const double t : us) sum += t;
    return us.empty() ? 0 : sum / static_cast<double>(us.size());
  }
  double p99() {
    std::ranges::sort(us);
    return us.empty() ? 0 : us[us.size() * 99 / 100];
  }
};

// Random tokens that resemble text: a word if the mask is wide, anything if it is narrow.
class Answers {
 public:
  Answers(const Tokenizer& tokenizer, std::shared_ptr<const Grammar> grammar)
      : tokenizer_(tokenizer), grammar_(std::move(grammar)) {}

  void Write(Times* times) {
    GrammarMatcher matcher(grammar_);
    std::vector<uint32_t> mask(static_cast<size_t>(tokenizer_.vocab_size() + 31) / 32);
    for (int i = 0; i < 300 && matcher.may_continue(); ++i) {
      const double begin = NowUs();
      MustBeOk(matcher.FillMask(mask));
      double spent = NowUs() - begin;
      std::vector<TokenId> allowed;
      for (TokenId id = 0; id < tokenizer_.vocab_size(); ++id) {
        if ((mask[static_cast<size_t>(id) / 32] >> (id % 32) & 1) != 0) allowed.push_back(id);
      }
      TokenId chosen = allowed[random_() % allowed.size()];
      if (allowed.size() > 1000 && random_() % 8 == 0) {
        for (const TokenId id : allowed) {
          if (tokenizer_.TokenBytes(id) == "\"") chosen = id;
        }
      }
      const double again = NowUs();
      MustBeOk(matcher.Take(chosen));
      spent += NowUs() - again;
      times->us.push_back(spent);
    }
  }

 private:
  const Tokenizer& tokenizer_;
  const std::shared_ptr<const Grammar> grammar_;
  std::mt19937 random_{1};
};

class EndSink final : public TokenSink {
 public:
  void OnStart(const CacheReport&) override {}
  void OnTokens(const TokenDelta&) override {}
  void OnEnd(const TurnEnd& end) override {
    std::lock_guard lock(mutex_);
    end_ = end;
    ended_ = true;
    changed_.notify_all();
  }
  TurnEnd Wait() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return ended_; });
    return end_;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool ended_ = false;
  TurnEnd end_;
};

struct Said {
  std::vector<int64_t> lengths;  // tokens of each conversation's answer
  double token_ms = 0;           // mean, after the first tokens
};

/// One concurrent answer per conversation, each of at most the given length.
Said Answer(Engine& engine, const Tokenizer& tokenizer, const std::shared_ptr<const Grammar>& grammar,
            const std::vector<int64_t>& lengths) {
  static TurnId turn = 0;
  const TextPiece prompt{"Here is a JSON document with everything that there is to know about it:\n", false};
  std::vector<std::shared_ptr<EndSink>> sinks;
  for (const int64_t length : lengths) {
    TurnRequest request;
    request.turn = request.timeline = ++turn;
    request.tokens = tokenizer.EncodeAll({&prompt, 1});
    request.window = {4, 1024, Eviction::kTurn};
    request.sampling.seed = 5 + sinks.size();
    request.sampling.top_p = 0.9;
    request.max_tokens = length;
    request.grammar = grammar;
    request.sink = sinks.emplace_back(std::make_shared<EndSink>());
    MustBeOk(engine.Submit(std::move(request)));
  }
  Said said;
  double ms = 0;
  int64_t gaps = 0;
  for (const auto& sink : sinks) {
    const TurnEnd end = sink->Wait();
    MustBeOk(end.error);
    said.lengths.push_back(std::ssize(end.output));
    gaps += std::ssize(end.output) - 1;
    ms += end.times.decode_ms;
  }
  for (size_t i = 0; i < sinks.size(); ++i) engine.Close(turn - i);
  said.token_ms = gaps > 0 ? ms / static_cast<double>(gaps) : 0;
  return said;
}

/// The process's peak memory since the last call.
double PeakMib() {
  double mib = 0;
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with("VmHWM:")) mib = std::stod(line.substr(6)) / 1024;
  }
  std::ofstream("/proc/self/clear_refs") << "5";
  return mib;
}

void CompileHostile(const Tokenizer& tokenizer) {
  for (const HostileTools& tools : AllHostileTools()) {
    for (const bool strict : {false, true}) {
      GrammarCache cache(tokenizer);
      (void)MustHave(cache.Get({AnswerFormat::Kind::kRegex, "a", ""}));  // the vocabulary's trie
      (void)PeakMib();
      const double before = PeakMib();
      const std::clock_t begin = std::clock();
      const auto grammar = cache.Get(Calling(tools.lines, false, std::vector<bool>(tools.count, strict)));
      const double ms = 1000.0 * static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC, peak = PeakMib() - before;
      fmt::print(
          "{{\"tools\":\"{}\",\"count\":{},\"text_bytes\":{},\"strict\":{},\"cpu_ms\":{:.0f},\"peak_mib\":{:.0f},"
          "\"kept_mib\":{:.1f},\"refused\":\"{}\"}}\n",
          tools.name, tools.count, tools.lines.size(), strict, ms, peak,
          grammar.ok() ? static_cast<double>((*grammar)->bytes()) / (1 << 20) : 0.0,
          grammar.ok() ? "" : grammar.status().param());
      std::fflush(stdout);
    }
  }
}

int Main(int argc, char** argv) {
  std::string model_path;
  std::string device = "cpu";
  int answers = 20, threads = 2, rounds = 5;
  int64_t tokens = 200, conversations = 1;
  CLI::App app("Measures what a format costs.");
  app.add_option("--model", model_path)->required();
  app.add_option("--answers", answers);
  app.add_option("--threads", threads);
  app.add_option("--rounds", rounds);
  app.add_option("--tokens", tokens);
  app.add_option("--device", device)->check(CLI::IsMember({"cpu", "cuda"}));
  app.add_option("--conversations", conversations);
  bool hostile = false;
  app.add_flag("--hostile", hostile);
  CLI11_PARSE(app, argc, argv);
  const auto backend = device == "cpu" ? MustHave(MakeCpuBackend({.threads = threads})) : MustHave(MakeCudaBackend({}));
  const auto model = MustHave(Model::Load(model_path, *backend));
  const auto tokenizer = MustHave(MakeTokenizer(model->tokenizer_data()));
  if (hostile) {
    CompileHostile(*tokenizer);
    return 0;
  }
  const auto engine = MustHave(Engine::Start(*model, *tokenizer, {.slots = conversations + 1, .memory_len = 1024}));
  GrammarCache cache(*tokenizer);
  (void)MustHave(cache.Get({AnswerFormat::Kind::kRegex, "a", ""}));  // the vocabulary's trie
  for (const Named& one : Formats()) {
    const double begin = NowUs();
    const auto grammar = MustHave(cache.Get(one.format));
    const double compile_ms = (NowUs() - begin) / 1000;
    Times cold, warm;
    Answers writer(*tokenizer, grammar);
    writer.Write(&cold);
    for (int i = 0; i < answers; ++i) writer.Write(&warm);
    // Interleaved, so that both see the same machine state; unconstrained answers have the length of the constrained
    // ones.
    Times free, bound;
    const std::vector<int64_t> most(static_cast<size_t>(conversations), tokens);
    for (int i = 0; i < rounds; ++i) {
      const Said said = Answer(*engine, *tokenizer, grammar, most);
      bound.us.push_back(said.token_ms);
      free.us.push_back(Answer(*engine, *tokenizer, nullptr, said.lengths).token_ms);
    }
    std::ranges::sort(free.us), std::ranges::sort(bound.us);
    fmt::print(
        "{{\"format\":\"{}\",\"vocab\":{},\"compile_ms\":{:.2f},\"bytes\":{},\"first_mean_us\":{:.1f},\"first_p99_us\":"
        "{:.1f},"
        "\"mean_us\":{:.1f},\"p99_us\":{:.1f},\"free_ms\":{:.3f},\"bound_ms\":{:.3f}}}\n",
        one.name, tokenizer->vocab_size(), compile_ms, grammar->bytes(), cold.mean(), cold.p99(), warm.mean(),
        warm.p99(), free.us[free.us.size() / 2], bound.us[bound.us.size() / 2]);
    std::fflush(stdout);
  }
  return 0;
}

}  // namespace
}  // namespace ringside

int main(int argc, char** argv) { return ringside::Main(argc, argv); }
