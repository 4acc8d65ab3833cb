#include "ws/models/loaded_model.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <future>
#include <limits>
#include <utility>

#include "base/log.h"
#include "base/model_files/model_tree.h"
#include "ws/app/app_progress.h"
#include "ws/app/app_storage.h"
#include "ws/app/app_window.h"

namespace ringside {
namespace {

// Never an id of the session layer, which counts up from a random 52-bit number.
constexpr uint64_t kWarmUpId = std::numeric_limits<uint64_t>::max();

class WarmUpSink final : public TokenSink {
 public:
  void OnStart(const CacheReport&) override {}
  void OnTokens(const TokenDelta&) override {}
  void OnEnd(const TurnEnd& end) override {
    ended_.set_value(end.reason == FinishReason::kError ? end.error : Status::Ok());
  }
  std::future<Status> ended() { return ended_.get_future(); }

 private:
  std::promise<Status> ended_;
};

/// The failure to load `path`; for a folder that only contains models, the way out.
Status ExplainFolder(Status failure, const std::string& path) {
  std::error_code error;
  if (failure.ok() || std::filesystem::exists(path + "/config.json", error)) return failure;
  if (!std::filesystem::is_directory(path, error)) return failure;
  const std::vector<FoundModel> below = FindModelsBelow(path);
  if (below.empty()) return failure;
  return InvalidArgument(
      fmt::format("--model: the folder {0} has {1} below it, but is none: choose one, --model {2}, or serve {3} with "
                  "--models-dir {0}",
                  path, below.size() == 1 ? "a model" : fmt::format("{} models", below.size()), below.front().path,
                  below.size() == 1 ? "it" : "all"));
}

}  // namespace

Status LoadedModel::LoadWeights(const ServerConfig& config, Processes& processes, std::vector<ModelCopy>* copies) {
  RETURN_IF_ERROR(ExplainFolder(LoadModels(config, processes, copies), config.model));
  const Model& model = *copies->front().model;
  const ModelSpec& spec = model.spec();
  LogInfo("model: {} ({}), {} layers, {:.1f} MiB of weights, trained to {} tokens", spec.name, spec.architecture,
          spec.layers, static_cast<double>(model.weight_bytes()) / (1 << 20), spec.trained_context);
  if (config.load_format == LoadFormat::kDummy) LogWarning("the weights are random: answers are meaningless");
  return Status::Ok();
}

LoadedModel::LoadedModel(std::vector<ModelCopy> copies, ModelText text, std::unique_ptr<EngineFleet> engines)
    : copies_(std::move(copies)), text_(std::move(text)), engines_(std::move(engines)) {}

LoadedModel::~LoadedModel() = default;

Result<std::unique_ptr<LoadedModel>> LoadedModel::Start(const ServerConfig& config, std::vector<ModelCopy>* copies,
                                                        ModelText text, EngineOptions options, const Storage& storage) {
  std::unique_ptr<EngineFleet> fleet;
  {
    const ProgressReport progress("making the engine");
    std::vector<std::unique_ptr<Engine>> engines;
    for (const ModelCopy& copy : *copies) {
      EngineStorage tiers = storage.ForEngine(*copy.model);
      if (!engines.empty()) tiers.pinned_bytes = 0;  // the first engine's pinned memory is shared by all
      auto engine = Engine::Start(*copy.model, *text.tokenizer, options, tiers);
      if (engine.status().code() == StatusCode::kOverloaded) return InvalidArgument(engine.status().message());
      ASSIGN_OR_RETURN(engines.emplace_back(), std::move(engine));
      options.memory_len = engines.back()->options().memory_len;  // later engines get no more
    }
    fleet = std::make_unique<EngineFleet>(std::move(engines));
  }
  EngineFleet& engines = *fleet;
  const Model& model = *copies->front().model;
  constexpr double kMib = 1 << 20;
  const EngineOptions& made = engines.options();
  LogInfo(
      "engine: {} slots of up to {:.1f} MiB, {:.1f} MiB for all; {} tokens in view and {} pinned, {} tokens a "
      "conversation",
      made.slots, static_cast<double>(engines.engine(0).slot_bytes()) / kMib, static_cast<double>(made.kv_bytes) / kMib,
      WindowOf(engines), made.pinned_max, made.session_len);
  LogInfo("{}", DescribeWindow(config, text.spec, engines));
  LogInfo("engine: {:.1f} MiB of weights", static_cast<double>(model.weight_bytes()) / kMib);
  if (engines.size() > 1) LogInfo("engines: {} of these", engines.size());
  const ProgressReport progress("warming up");
  for (size_t i = 0; i < engines.size(); ++i) {
    if (Status status = WarmUp(engines.engine(i), model.tokenizer_data()); !status.ok()) {
      return Unavailable("the first turn failed: " + status.message());
    }
  }
  return std::unique_ptr<LoadedModel>(new LoadedModel(std::move(*copies), std::move(text), std::move(fleet)));
}

int64_t LoadedModel::bytes() const {
  int64_t bytes = 0;
  for (const ModelCopy& copy : copies_) bytes += copy.model->weight_bytes();
  return bytes + engines_->stats().kv_bytes;
}

bool LoadedModel::devices_ok() const { return std::ranges::all_of(copies_, &ModelCopy::devices_ok); }

Status LoadedModel::status() const {
  if (engines_->healthy() && std::ranges::any_of(copies_, &ModelCopy::devices_ok)) return Status::Ok();
  Status why;
  for (const ModelCopy& copy : copies_) {
    if (why.ok()) why = copy.device_status();
  }
  for (size_t i = 0; i < engines_->size() && why.ok(); ++i) why = engines_->engine(i).status();
  return Unavailable(fmt::format("{}: {}", engines_->size() == 1 ? "the engine has failed" : "all engines have failed",
                                 why.message()));
}

Status WarmUp(Engine& engine, const TokenizerData& data) {
  const auto sink = std::make_shared<WarmUpSink>();
  TurnRequest request;
  request.turn = kWarmUpId;
  request.timeline = kWarmUpId;
  const TokenId any = data.bos.value_or(data.eos.value_or(0));
  request.tokens = {any, any};  // with an encoder, the second token starts the answer
  request.message_starts = {0};
  request.window = {.pinned = 1, .memory_len = engine.options().memory_len, .eviction = Eviction::kTurn};
  request.sampling.temperature = 0;
  request.max_tokens = 2;
  request.sink = sink;
  std::future<Status> ended = sink->ended();
  RETURN_IF_ERROR(engine.Submit(std::move(request)));
  RETURN_IF_ERROR(ended.get());
  engine.Close(kWarmUpId);
  std::promise<void> settled;  // the turn is no longer counted
  engine.Ping([&] { settled.set_value(); });
  settled.get_future().wait();
  return Status::Ok();
}

}  // namespace ringside
