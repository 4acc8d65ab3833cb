#include "ws/app/app_window.h"

#include <algorithm>

#include "ws/config/machine.h"
#include "ws/config/window_line.h"

namespace ringside {

Status FitMachine(const ServerConfig& config, const Model& model, const Processes& processes, EngineOptions* options) {
  // Checked in advance, because systems differ in how they refuse memory.
  const int64_t engines = config.data_parallel_size;
  const auto here = [&](int64_t of_all) { return of_all * processes.count_on_machine() / processes.count(); };
  MemoryNeed need{.host_cache_mb = config.host_cache_mb, .weight_bytes = here(model.weight_bytes() * engines)};
  const int64_t memory_bytes = MachineMemoryBytes();
  if (options->fits_window && options->kv_bytes == 0) {
    if (options->slots == 0) options->slots = EngineOptions().slots;
    need.kv_cache_mb = CacheBytesLeft(need, memory_bytes) >> 20;
    options->kv_bytes = (need.kv_cache_mb << 20) * processes.count() / processes.count_on_machine() / engines;
  } else {
    need.slots = engines * (options->slots > 0 ? options->slots : EngineOptions().slots);
    need.slot_bytes = here(Engine::SlotBytes(model.shape(), *options));
    need.kv_cache_mb = here(config.kv_cache_mb * engines);
  }
  return CheckMemory(need, memory_bytes);
}

int64_t WindowOf(EngineFleet& engines) { return engines.engine(engines.size() - 1).options().memory_len; }

std::string DescribeWindow(const ServerConfig& config, const ModelSpec& spec, EngineFleet& engines) {
  WindowFacts facts{.memory_len = WindowOf(engines),
                    .pinned_max = engines.options().pinned_max,
                    .context = spec.encoder_layers > 0 ? 0 : spec.context(),
                    .asked = config.memory_len.has_value()};
  for (size_t i = 0; i < engines.size(); ++i) {
    const EngineOptions& options = engines.engine(i).options();
    facts.slots += options.slots;
    facts.sessions += std::min(options.slots, options.kv_bytes / engines.engine(i).slot_bytes());
  }
  return DescribeWindow(facts);
}

}  // namespace ringside
