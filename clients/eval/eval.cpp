#include "clients/eval/eval.h"

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <mutex>
#include <optional>
#include <thread>

#include "clients/eval/figures.h"
#include "clients/terminal/sanitiser.h"
#include "clients/wire/models.h"
#include "clients/wire/transport/http_client.h"

namespace ringside::client {
namespace {

constexpr std::chrono::minutes kPatience{10};  // per request

/// Progress of a run, on a line that is overwritten; silent without a terminal.
class ProgressLine {
 public:
  explicit ProgressLine(size_t all) : all_(all), shown_(::isatty(STDERR_FILENO) != 0) {}
  ~ProgressLine() {
    if (shown_) std::fputs("\r\x1b[K", stderr);
  }
  void Show(size_t done) const {
    if (!shown_) return;
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begun_;
    std::fprintf(stderr, "\r%zu of %zu, %.1f/s\x1b[K", done, all_,
                 static_cast<double>(done) / std::max(took.count(), 1e-3));
  }

 private:
  const size_t all_;
  const bool shown_;
  const std::chrono::steady_clock::time_point begun_ = std::chrono::steady_clock::now();
};

class Evaluation {
 public:
  Evaluation(const ServerAccess& server, const EvalOptions& options) : server_(server), options_(options) {}

  Outcome<std::string> Run() {
    Outcome<std::string> model = ModelName();
    if (!model) return model.failure();
    model_ = *model;
    Outcome<std::vector<Sample>> samples = ReadSamples();
    if (!samples) return samples.failure();
    samples_ = std::move(*samples);
    if (options_.limit > 0) samples_.resize(std::min(samples_.size(), static_cast<size_t>(options_.limit)));
    const Outcome<Done> asked = AskAll();
    if (!asked) return asked.failure();
    size_t tokens = 0;
    for (const auto& sample : likelihoods_) {
      for (const Likelihood& one : sample) tokens += one.logprobs.size();
    }
    const std::vector<Figure> figures = FiguresOf(options_.task, samples_, likelihoods_);
    if (options_.json) return FiguresJson(options_, model_, samples_.size(), tokens, figures);
    return FiguresTable(figures) + Counts(tokens);
  }

 private:
  Outcome<std::string> ModelName() const {
    if (!options_.model.empty()) return options_.model;
    const Outcome<ServedModel> served = GetModel(HttpClient(server_.url, server_.api_key));
    if (!served) return served.failure();
    return served->name;
  }

  Outcome<std::vector<Sample>> ReadSamples() const {
    std::ifstream file(options_.path, std::ios::binary);
    std::error_code ignored;
    if (!file || std::filesystem::is_directory(options_.path, ignored)) {
      return Failure{"Cannot read " + options_.path + "."};
    }
    const std::string text{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
    if (options_.task == EvalOptions::Task::kPerplexity) return ReadWindows(text);
    Outcome<std::vector<Sample>> samples = options_.task == EvalOptions::Task::kLastWord
                                               ? ReadPassages(text, options_.prefix)
                                               : ReadQuestions(text, options_.prefix);
    if (!samples) return Failure{options_.path + ": " + samples.failure().message};
    return samples;
  }

  Outcome<std::vector<Sample>> ReadWindows(const std::string& text) const {
    const Outcome<std::vector<int64_t>> tokens = Tokenize(text);
    if (!tokens) return tokens.failure();
    std::vector<int64_t> before;
    if (!options_.prefix.empty()) {
      const Outcome<std::vector<int64_t>> prefix = Tokenize(options_.prefix);
      if (!prefix) return prefix.failure();
      before = *prefix;
    }
    const auto context = static_cast<size_t>(options_.context);
    const size_t stride = options_.stride > 0 ? static_cast<size_t>(options_.stride) : context / 2;
    if (stride + before.size() > context) return Failure{"The stride and the prefix are longer than the context."};
    std::vector<Sample> windows = SlidingWindows(*tokens, before, context, stride);
    if (windows.empty()) return Failure{options_.path + ": The text is too short."};
    return windows;
  }

  /// Uses the server's tokenizer: the client has none.
  Outcome<std::vector<int64_t>> Tokenize(const std::string& text) const {
    ServerUrl root = server_.url;
    root.base_path = "";
    const Outcome<HttpAnswer> answer =
        HttpClient(root, server_.api_key, kPatience).Request("POST", "/tokenize", TokenizeRequest(model_, text));
    if (answer) return ReadTokens(answer->body);
    if (answer.failure().http_status != 404) return answer.failure();
    return Failure{"The server has no /tokenize, which is needed to split a text into windows."};
  }

  Outcome<std::vector<Likelihood>> Ask(const HttpClient& http, const std::vector<Prompt>& prompts) const {
    const Outcome<HttpAnswer> answer = http.Request("POST", "/completions", LikelihoodRequest(model_, prompts));
    if (!answer) return answer.failure();
    return ReadLikelihoods(answer->body, prompts);
  }

  /// Runs several requests concurrently; the first failure aborts.
  Outcome<Done> AskAll() {
    likelihoods_.resize(samples_.size());
    const ProgressLine progress(samples_.size());
    std::mutex mutex;
    std::optional<Failure> failure;
    std::atomic<size_t> next{0};
    size_t done = 0;
    const auto ask = [&] {
      const HttpClient http(server_.url, server_.api_key, kPatience);
      for (size_t i = next++; i < samples_.size(); i = next++) {
        Outcome<std::vector<Likelihood>> told = Ask(http, samples_[i].prompts);
        const std::lock_guard lock(mutex);
        if (!told) {
          if (!failure) failure = told.failure();
          next = samples_.size();
          return;
        }
        likelihoods_[i] = std::move(*told);
        progress.Show(++done);
      }
    };
    std::vector<std::thread> threads;
    for (int i = 0; i < options_.in_flight; ++i) threads.emplace_back(ask);
    for (std::thread& thread : threads) thread.join();
    if (failure) return *failure;
    return Done{};
  }

  std::string Counts(size_t tokens) const {
    const char* what = options_.task == EvalOptions::Task::kPerplexity ? "windows"
                       : options_.task == EvalOptions::Task::kLastWord ? "passages"
                                                                       : "questions";
    return "of " + std::to_string(tokens) + " tokens in " + std::to_string(samples_.size()) + " " + what + "\n";
  }

  const ServerAccess& server_;
  const EvalOptions& options_;
  std::string model_;
  std::vector<Sample> samples_;
  std::vector<std::vector<Likelihood>> likelihoods_;  // by sample, by prompt
};

}  // namespace

int Evaluate(const ServerAccess& server, const EvalOptions& options) {
  const Outcome<std::string> told = Evaluation(server, options).Run();
  std::fputs(Sanitise(told ? *told : "ringside: " + told.failure().message + "\n").c_str(), told ? stdout : stderr);
  return told ? 0 : 1;
}

}  // namespace ringside::client
