// Measures the loss of a model on a text: in fresh contexts (perplexity), in one ring past its window, and the same
// tokens of that ring in fresh contexts of half to one window. Run by hand; tests/golden/score_text.py computes the
// float reference for the first and prepares texts.
//
//   score_main MODEL TEXT --mode blocks --tokens 20000 --block 2048 --write-ids ids.i32
//              [--kv-cache-dtype fp8] [--quantization int8|fp8] [--device cuda --dtype bf16]
//   score_main MODEL TEXT --mode ring  --tokens 16384 --memory 1024 [--pinned N | --no-pins] [--absolute]
//   score_main MODEL TEXT --mode fresh --tokens 16384 --memory 1024
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <fstream>
#include <sstream>

#include "cache/kv_pool.h"
#include "engine/model/model.h"
#include "engine/slot_plan.h"
#include "kernels/formats/row_quantization.h"
#include "tests/kernels/formats/quantized_weights.h"
#include "tests/kernels/forwarding_backend.h"

namespace ringside {
namespace {

constexpr int64_t kChunk = 128;

struct Options {
  std::string model, text, mode = "blocks", write_ids, device = "cpu", dtype = "bf16", cache = "f16",
                           quantization = "none";
  int64_t tokens = 20000, block = 2048, memory = 1024, pinned = -1, from = 10000, threads = 0;
  bool no_pins = false, absolute = false;
};

// The CPU backend without the second query: pinned keys at their true distance. Forwards everything else.
class AbsoluteDistances final : public ForwardingBackend {
 public:
  using ForwardingBackend::ForwardingBackend;
  std::string Describe() const override { return ForwardingBackend::Describe() + ", absolute distances"; }
  void Attention(const AttentionArgs& args) override {
    AttentionArgs changed = args;
    changed.angles.pinned_cos = args.angles.own_cos;
    changed.angles.pinned_sin = args.angles.own_sin;
    ForwardingBackend::Attention(changed);
  }
};

// Mean and standard error of per-token losses, in nats.
struct Loss {
  double sum = 0, squares = 0;
  int64_t count = 0;
  void Add(double nll) {
    sum += nll;
    squares += nll * nll;
    ++count;
  }
  double mean() const { return sum / static_cast<double>(count); }
  double error() const {
    const auto n = static_cast<double>(count);
    return std::sqrt(std::max(0.0, squares / n - mean() * mean()) / n);
  }
};

DType Named(const std::string& dtype) {
  return dtype == "fp8" ? DType::kF8E4M3 : dtype == "bf16" ? DType::kBF16 : DType::kF16;
}

// Negative log-likelihood of `id` under one row of logits.
double TokenLoss(std::span<const float> logits, TokenId id) {
  const float largest = *std::max_element(logits.begin(), logits.end());
  double sum = 0;
  for (const float logit : logits) sum += std::exp(logit - largest);
  return std::log(sum) + static_cast<double>(largest) - static_cast<double>(logits[static_cast<size_t>(id)]);
}

class Scorer {
 public:
  Scorer(Model& model, const Options& options, const RingWindow& window, int64_t rows)
      : model_(model),
        shape_(CacheShape(model.shape(), {.memory_len = rows,
                                          .pinned_max = std::max<int64_t>(window.pinned, 1),
                                          .prefill_chunk = kChunk,
                                          .kv_dtype = Named(options.cache)})),
        slab_(std::move(model.backend().Allocate(static_cast<size_t>(shape_.slab_bytes())).value())),
        cache_(shape_, slab_.data()),
        window_(window) {
    Reset();
  }
  void Reset() { cache_.Reset(window_); }

  // Feeds ids; calls on_loss(i, nll of ids[i + 1]) for every i >= from.
  template <class F>
  void Feed(std::span<const TokenId> ids, int64_t from, F on_loss) {
    const auto count = static_cast<int64_t>(ids.size());
    const auto vocab = static_cast<size_t>(model_.spec().vocab);
    for (int64_t at = 0; at + 1 < count;) {
      const bool scored = at >= from;
      const int64_t end = std::min({scored ? count - 1 : std::min(from, count - 1), at + kChunk});
      const auto part_ids = ids.subspan(static_cast<size_t>(at), static_cast<size_t>(end - at));
      const StepPart part{&cache_, part_ids, scored ? StepPart::Logits::kAll : StepPart::Logits::kNone};
      logits_.resize(scored ? part_ids.size() * vocab : 0);
      model_.Forward({&part, 1}, logits_);
      for (int64_t i = at; scored && i < end; ++i) {
        const auto row = std::span<const float>(logits_).subspan(static_cast<size_t>(i - at) * vocab, vocab);
        on_loss(i, TokenLoss(row, ids[static_cast<size_t>(i + 1)]));
      }
      at = end;
    }
  }

 private:
  Model& model_;
  KvShape shape_;
  Buffer slab_;
  KvCache cache_;
  RingWindow window_;
  std::vector<float> logits_;
};

void Report(const std::string& what, const Loss& loss) {
  if (loss.count == 0) return;
  fmt::print("{}: {} tokens, loss {:.5f} +- {:.5f}, perplexity {:.5f}\n", what, loss.count, loss.mean(), loss.error(),
             std::exp(loss.mean()));
  std::fflush(stdout);
}

// Each block of tokens in a fresh context; scores all but its first token.
void ScoreBlocks(Model& model, const Options& options, std::span<const TokenId> text) {
  Scorer scorer(model, options, {0, options.block, Eviction::kToken}, options.block);
  Loss total;
  for (int64_t at = 0; at + options.block <= static_cast<int64_t>(text.size()); at += options.block) {
    Loss loss;
    scorer.Reset();
    scorer.Feed(text.subspan(static_cast<size_t>(at), static_cast<size_t>(options.block)), 0, [&](int64_t, double nll) {
      loss.Add(nll);
      total.Add(nll);
    });
    Report(fmt::format("block at {}", at), loss);
  }
  Report("blocks", total);
}

// Losses by the position of the scored token in the text, per 1,000 and from `from` on.
class ByPosition {
 public:
  ByPosition(std::string what, int64_t from) : what_(std::move(what)), from_(from) {}
  void Add(int64_t position, double nll) {
    const auto bin = static_cast<size_t>(position / 1000);
    if (bins_.size() <= bin) bins_.resize(bin + 1);
    bins_[bin].Add(nll);
    if (position >= from_) late_.Add(nll);
    if (position >= 12000) latest_.Add(nll);
  }
  void Print() const {
    for (size_t i = 0; i < bins_.size(); ++i) Report(fmt::format("{} {}-{}k", what_, i, i + 1), bins_[i]);
    Report(fmt::format("{} from {} on", what_, from_), late_);
    Report(fmt::format("{} from 12000 on", what_), latest_);
  }

 private:
  std::string what_;
  int64_t from_;
  std::vector<Loss> bins_;
  Loss late_, latest_;
};

// The whole text after the prefix in one ring. Reported positions include the prefix.
void ScoreRing(Model& model, const Options& options, std::span<const TokenId> prefix, std::span<const TokenId> text) {
  const int64_t all = static_cast<int64_t>(prefix.size());
  const int64_t pinned = options.no_pins ? 0 : options.pinned >= 0 ? options.pinned : all;
  std::vector<TokenId> ids(prefix.begin(), prefix.end());
  ids.insert(ids.end(), text.begin(), text.end());
  Scorer scorer(model, options, {pinned, options.memory, Eviction::kToken}, options.memory);
  ByPosition losses(fmt::format("ring S={}{}", pinned, options.absolute ? " absolute" : ""), options.from);
  const int64_t first = std::max<int64_t>(all, options.from - kChunk);
  scorer.Feed(ids, first, [&](int64_t i, double nll) { losses.Add(i + 1, nll); });
  losses.Print();
}

// The same tokens, each half window scored in a fresh context of the prefix, the half window before it and itself.
void ScoreFresh(Model& model, const Options& options, std::span<const TokenId> prefix, std::span<const TokenId> text) {
  const auto all = static_cast<int64_t>(prefix.size()), count = static_cast<int64_t>(text.size());
  const int64_t half = options.memory / 2;
  Scorer scorer(model, options, {all, options.memory, Eviction::kToken}, options.memory);
  ByPosition losses("fresh", options.from);
  for (int64_t at = std::max<int64_t>(half, (options.from - all - kChunk) / half * half); at < count; at += half) {
    std::vector<TokenId> ids(prefix.begin(), prefix.end());
    const int64_t end = std::min(at + half, count);
    ids.insert(ids.end(), text.begin() + (at - half), text.begin() + end);
    scorer.Reset();
    // The token before the first scored one yields its logits.
    scorer.Feed(ids, all + half - 1, [&](int64_t i, double nll) { losses.Add(at - half + i + 1, nll); });
  }
  losses.Print();
}

Result<std::string> ReadText(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) return NotFound(path);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

Status Run(const Options& options) {
  const bool cuda = options.device == "cuda";
  const std::optional<DType> quantization = QuantizationNamed(options.quantization);
  ASSIGN_OR_RETURN(
      std::unique_ptr<Backend> backend,
      cuda  // a part of the memory: several settings are scored in parallel
          ? MakeCudaBackend({.dtype = Named(options.dtype), .quantization = quantization, .memory_utilization = 0.15})
          : MakeCpuBackend({.threads = static_cast<int>(options.threads)}));
  if (quantization && !cuda) backend = std::make_unique<QuantizedWeights>(std::move(backend), *quantization);
  if (options.absolute) backend = std::make_unique<AbsoluteDistances>(std::move(backend));
  ASSIGN_OR_RETURN(const auto model, Model::Load(options.model, *backend));
  ASSIGN_OR_RETURN(const auto tokenizer, MakeTokenizer(model->tokenizer_data()));
  ASSIGN_OR_RETURN(const std::string source, ReadText(options.text));
  const TextPiece system = {
      "<|im_start|>system\nYou are a helpful AI assistant named SmolLM, trained by Hugging "
      "Face<|im_end|>\n<|im_start|>user\nContinue the text.\n",
      true};
  const TextPiece piece = {source, false};
  const std::vector<TokenId> prefix = tokenizer->EncodeAll({&system, 1});
  std::vector<TokenId> ids = tokenizer->EncodeAll({&piece, 1});
  fmt::print("{}: {} tokens, prefix {}; {}\n", options.text, ids.size(), prefix.size(), backend->Describe());
  if (static_cast<int64_t>(ids.size()) < options.tokens) return InvalidArgument("the text is too short");
  ids.resize(static_cast<size_t>(options.tokens));
  if (!options.write_ids.empty()) {
    std::ofstream(options.write_ids, std::ios::binary)
        .write(reinterpret_cast<const char*>(ids.data()), static_cast<std::streamsize>(ids.size() * sizeof(TokenId)));
  }
  if (options.mode == "blocks")
    ScoreBlocks(*model, options, ids);
  else if (options.mode == "ring")
    ScoreRing(*model, options, prefix, ids);
  else
    ScoreFresh(*model, options, prefix, ids);
  return Status::Ok();
}

}  // namespace
}  // namespace ringside

int main(int argc, char** argv) {
  ringside::Options options;
  CLI::App app("Loss of a model on a text");
  app.add_option("model", options.model)->required();
  app.add_option("text", options.text)->required();
  app.add_option("--mode", options.mode)->check(CLI::IsMember({"blocks", "ring", "fresh"}));
  app.add_option("--tokens", options.tokens)->check(CLI::PositiveNumber);
  app.add_option("--block", options.block)->check(CLI::PositiveNumber);
  app.add_option("--memory", options.memory)->check(CLI::PositiveNumber);
  app.add_option("--pinned", options.pinned, "Pinned tokens; the whole prefix if absent");
  app.add_option("--from", options.from, "First position whose loss counts");
  app.add_option("--threads", options.threads);
  app.add_option("--write-ids", options.write_ids, "File for the ids scored, as int32");
  app.add_option("--device", options.device)->check(CLI::IsMember({"cpu", "cuda"}));
  app.add_option("--dtype", options.dtype, "On CUDA")->check(CLI::IsMember({"f16", "bf16"}));
  app.add_option("--kv-cache-dtype", options.cache)->check(CLI::IsMember({"f16", "bf16", "fp8"}));
  app.add_option("--quantization", options.quantization)->check(CLI::IsMember({"none", "int8", "fp8"}));
  app.add_flag("--no-pins", options.no_pins);
  app.add_flag("--absolute", options.absolute, "Leave the second query out");
  CLI11_PARSE(app, argc, argv);
  const ringside::Status status = ringside::Run(options);
  if (!status.ok()) fmt::print(stderr, "{}\n", status.ToString());
  return status.ok() ? 0 : 1;
}
