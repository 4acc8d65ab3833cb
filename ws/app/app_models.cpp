#include "ws/app/app_models.h"

#include <fmt/format.h>

#include <algorithm>
#include <thread>
#include <utility>

#include "base/log.h"
#include "engine/model/model_facts.h"
#include "kernels/ranks/process_devices.h"
#include "kernels/ranks/ranks.h"
#include "ws/app/app_progress.h"
#include "ws/config/machine.h"

namespace ringside {
namespace {

// of all layers; for smaller models the all-reduces cost more than splitting saves
constexpr int64_t kLeastSharedWeights = 800'000'000;
// Channels of the process group: the first two and the last are reserved for this file;
// engine/model/model_processes.cpp uses the others.
constexpr int kSumsChannel = 0, kDevicesChannel = Processes::kMaxChannels - 1;

using Backends = std::vector<std::unique_ptr<Backend>>;

RankLayout LayoutOf(const ServerConfig& config) {
  return {.tensor = static_cast<int>(config.tensor_parallel_size),
          .stages = static_cast<int>(config.pipeline_parallel_size)};
}

Status CheckProcesses(const ServerConfig& config, int processes) {
  if (processes == 1) return Status::Ok();
  const int ranks = LayoutOf(config).ranks();
  if (ranks % processes != 0) {
    return InvalidArgument(
        fmt::format("--tensor-parallel-size {} and --pipeline-parallel-size {} cannot be shared by {} "
                    "processes with as many ranks each",
                    config.tensor_parallel_size, config.pipeline_parallel_size, processes));
  }
  if (ranks > Processes::kMaxServerRanks || ranks / processes > Processes::kMaxRanksPerProcess) {
    return InvalidArgument(fmt::format("{} ranks of {} processes: {} at most, {} of them in a process", ranks,
                                       processes, Processes::kMaxServerRanks, Processes::kMaxRanksPerProcess));
  }
  if (config.data_parallel_size > 1) return InvalidArgument("--data-parallel-size requires a single process");
  if (!config.adapters.empty()) {
    return InvalidArgument(fmt::format("--{} is for one process", config.adapters.front().kind_name()));
  }
  return Status::Ok();
}

/// Creates the backends of this process's ranks of a copy.
Result<Backends> MakeBackends(const ServerConfig& config, Processes& processes, int copy) {
  RETURN_IF_ERROR(CheckProcesses(config, processes.count()));
  const RankLayout layout = LayoutOf(config);
  const int ranks = layout.ranks() / processes.count();
  CpuBackendOptions cpu = config.cpu;
  const int all = ranks * static_cast<int>(config.data_parallel_size) * processes.count_on_machine();
  if (cpu.threads == 0 && all > 1) cpu.threads = std::max(1, UsableCpuCores() / all);
  int first_gpu = config.gpu.device + copy * ranks;
  if (config.cuda && processes.count() > 1) {
    ASSIGN_OR_RETURN(first_gpu, AssignDevices(processes, kDevicesChannel, config.gpu.device, ranks));
  }
  const auto make = [&](int rank, RankComms comms) {
    if (!config.cuda) return MakeCpuBackend(cpu, std::move(comms));
    CudaBackendOptions gpu = config.gpu;
    gpu.device = first_gpu + rank;
    return MakeCudaBackend(gpu, std::move(comms));
  };
  ASSIGN_OR_RETURN(Backends backends, MakeRanks(processes.MakeComms(kSumsChannel, layout, processes.timeout()), make));
  for (const auto& backend : backends) LogInfo("backend: {}", backend->Describe());
  return backends;
}

std::vector<Backend*> Pointers(const Backends& backends) {
  std::vector<Backend*> out;
  for (const auto& backend : backends) out.push_back(backend.get());
  return out;
}

Status CheckShared(const ServerConfig& config, const ModelSpec& spec) {
  const bool shared = config.cuda && config.tensor_parallel_size > 1 && !config.tensor_parallel_force;
  if (!shared || spec.layer_weights() >= kLeastSharedWeights) return Status::Ok();
  return InvalidArgument(fmt::format(
      "--tensor-parallel-size: a model of {:.1f} billion weights is slower on several GPUs than on one, for "
      "they wait for one another twice a layer; --tensor-parallel-force shares it all the same",
      static_cast<double>(spec.layer_weights()) / 1e9));
}

DraftLayer DraftLayerOf(const ServerConfig& config) {
  return SpeculationOf(config) == Speculation::kMtp ? DraftLayer::kPlan : DraftLayer::kSkip;
}

Status CheckDraftLayer(const ServerConfig& config, const ModelSpec& spec) {
  if (config.speculation != Speculation::kMtp || spec.draft_layers > 0) return Status::Ok();
  return InvalidArgument(
      fmt::format("--speculate: the model '{}' has no layer for multi-token prediction; set ngram", spec.name));
}

/// Checks by the files' headers that the weights fit and have the wanted layers, before they are read. Faults of the
/// files are reported by the load.
Status CheckHeaders(const ServerConfig& config, const Processes& processes, const std::vector<ModelCopy>& copies) {
  if (config.load_format != LoadFormat::kAuto || processes.count() > 1) return Status::Ok();
  const Backend& first = *copies.front().ranks.front();
  const Result<ModelFacts> facts = ReadModelFacts(config.model, first, DraftLayerOf(config));
  if (!facts.ok()) return Status::Ok();
  RETURN_IF_ERROR(CheckDraftLayer(config, facts->spec));
  if (const auto free = first.free_bytes()) {
    return CheckWeights(facts->weight_bytes / LayoutOf(config).ranks(), static_cast<int64_t>(*free),
                        "free memory of the device");
  }
  return CheckWeights(facts->weight_bytes * std::ssize(copies), MachineMemoryBytes(), "memory of this machine");
}

Status Load(const ServerConfig& config, Processes& processes, ModelCopy& copy) {
  const std::vector<Backend*> ranks = Pointers(copy.ranks);
  const int stages = LayoutOf(config).stages;
  ASSIGN_OR_RETURN(copy.model,
                   processes.count() > 1
                       ? Model::Load(config.model, ranks, stages, config.load_format, processes)
                       : Model::Load(config.model, ranks, stages, config.load_format, DraftLayerOf(config)));
  RETURN_IF_ERROR(CheckDraftLayer(config, copy.model->spec()));
  return copy.model->LoadAdapters(config.adapters);
}

}  // namespace

Status ModelCopy::device_status() const {
  for (const auto& rank : ranks) RETURN_IF_ERROR(rank->status());
  return Status::Ok();
}

Status LoadModels(const ServerConfig& config, Processes& processes, std::vector<ModelCopy>* copies) {
  copies->resize(static_cast<size_t>(config.data_parallel_size));
  for (size_t i = 0; i < copies->size(); ++i) {
    ASSIGN_OR_RETURN((*copies)[i].ranks, MakeBackends(config, processes, static_cast<int>(i)));
  }
  RETURN_IF_ERROR(CheckHeaders(config, processes, *copies));
  {
    const ProgressReport progress("loading " + config.model);
    std::vector<Status> loaded(copies->size());
    std::vector<std::thread> threads;
    for (size_t i = 0; i < copies->size(); ++i) {
      threads.emplace_back([&, i] { loaded[i] = Load(config, processes, (*copies)[i]); });
    }
    for (std::thread& thread : threads) thread.join();
    for (Status& status : loaded) RETURN_IF_ERROR(std::move(status));
  }
  return CheckShared(config, copies->front().model->spec());
}

Result<std::vector<std::string>> AdapterNames(const ServerConfig& config, const std::string& model_name) {
  std::vector<std::string> names;
  for (const NamedAdapter& adapter : config.adapters) {
    if (adapter.name == model_name) {
      return InvalidArgument(fmt::format("--{}: '{}' is the model's own name", adapter.kind_name(), model_name));
    }
    LogInfo("adapter: {}, from {}", adapter.name, adapter.path);
    names.push_back(adapter.name);
  }
  return names;
}

Status FollowModel(const ServerConfig& config, Processes& processes) {
  ASSIGN_OR_RETURN(const Backends backends, MakeBackends(config, processes, 0));
  return Model::Follow(config.model, Pointers(backends), LayoutOf(config).stages, config.load_format, processes);
}

}  // namespace ringside
