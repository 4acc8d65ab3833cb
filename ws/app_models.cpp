#include "ws/app_models.h"

#include <fmt/format.h>

#include <algorithm>
#include <thread>
#include <utility>

#include "base/log.h"
#include "kernels/ranks.h"
#include "ws/app_progress.h"

namespace ringside {
namespace {

constexpr int64_t kLeastSharedWeights = 800'000'000;  // in layers; below, the sums of ranks take longer than they save

RankLayout LayoutOf(const ServerConfig& config) {
  return {.tensor = static_cast<int>(config.tensor_parallel_size),
          .stages = static_cast<int>(config.pipeline_parallel_size)};
}

Result<std::vector<std::unique_ptr<Backend>>> MakeBackends(const ServerConfig& config, int copy) {
  const RankLayout layout = LayoutOf(config);
  CpuBackendOptions cpu = config.cpu;
  const int all = layout.ranks() * static_cast<int>(config.data_parallel_size);
  if (cpu.threads == 0 && all > layout.ranks()) cpu.threads = std::max(1, UsableCpuCores() / all);
  const auto make = [&](int rank, RankComms comms) {
    if (!config.cuda) return MakeCpuBackend(cpu, std::move(comms));
    CudaBackendOptions gpu = config.gpu;
    gpu.device += copy * layout.ranks() + rank;
    return MakeCudaBackend(gpu, std::move(comms));
  };
  return MakeRanks(layout, std::chrono::seconds(config.rank_timeout_s), make);
}

Status CheckShared(const ServerConfig& config, const ModelSpec& spec) {
  const bool shared = config.cuda && config.tensor_parallel_size > 1 && !config.tensor_parallel_force;
  if (!shared || spec.layer_weights() >= kLeastSharedWeights) return Status::Ok();
  return InvalidArgument(fmt::format(
      "--tensor-parallel-size: a model of {:.1f} billion weights is slower on several GPUs than on one, for "
      "they wait for one another twice a layer; --tensor-parallel-force shares it all the same",
      static_cast<double>(spec.layer_weights()) / 1e9));
}

Status Load(const ServerConfig& config, ModelCopy& copy) {
  std::vector<Backend*> ranks;
  for (const auto& rank : copy.ranks) ranks.push_back(rank.get());
  ASSIGN_OR_RETURN(copy.model, Model::Load(config.model, ranks, LayoutOf(config).stages, config.load_format));
  return Status::Ok();
}

}  // namespace

bool ModelCopy::devices_ok() const {
  return std::ranges::all_of(ranks, [](const auto& rank) { return rank->status().ok(); });
}

Status LoadModels(const ServerConfig& config, std::vector<ModelCopy>* copies) {
  copies->resize(static_cast<size_t>(config.data_parallel_size));
  for (size_t i = 0; i < copies->size(); ++i) {
    ASSIGN_OR_RETURN((*copies)[i].ranks, MakeBackends(config, static_cast<int>(i)));
    for (const auto& rank : (*copies)[i].ranks) LogInfo("backend: {}", rank->Describe());
  }
  {
    const ProgressReport progress("loading " + config.model);
    std::vector<Status> loaded(copies->size());
    std::vector<std::thread> threads;
    for (size_t i = 0; i < copies->size(); ++i) {
      threads.emplace_back([&, i] { loaded[i] = Load(config, (*copies)[i]); });
    }
    for (std::thread& thread : threads) thread.join();
    for (Status& status : loaded) RETURN_IF_ERROR(std::move(status));
  }
  return CheckShared(config, copies->front().model->spec());
}

}  // namespace ringside
