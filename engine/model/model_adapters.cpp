// Model::LoadAdapters: from files to every rank's device.
#include <fmt/format.h>

#include "engine/model/model_fingerprint.h"
#include "engine/model/model_state.h"

namespace ringside {

Status Model::State::LoadAdapter(const AdapterFile& file) {
  RETURN_IF_ERROR(group.Try([&](size_t here) {
    Backend& backend = *backends[here];
    ASSIGN_OR_RETURN(AdapterWeights weights, ringside::LoadAdapter(file, planned, gguf, spec, shards[here], backend));
    decoders[here]->AddAdapter(std::move(weights));
    return Status::Ok();
  }));
  weight_bytes = 0;
  for (const auto& decoder : decoders) weight_bytes += decoder->weight_bytes();
  adapter_fingerprints.push_back(FingerprintUnder(fingerprint, file.Digest()));
  return Status::Ok();
}

Status Model::LoadAdapters(std::span<const NamedAdapter> adapters) {
  if (adapters.empty()) return Status::Ok();
  State& state = *state_;
  if (state.others != nullptr) return InvalidArgument("adapters are for one process", "lora");
  if (backend().activation_dtype() != DType::kF32) {
    return InvalidArgument("adapters are computed in float32, on the CPU only", "lora");
  }
  for (const NamedAdapter& adapter : adapters) {
    const auto named = [&](const Status& status) {
      const bool has_path = status.message().starts_with(adapter.path);
      return Status(
          status.code(),
          fmt::format("adapter '{}'{}: {}", adapter.name, has_path ? "" : " (" + adapter.path + ")", status.message()),
          "lora");
    };
    const Result<AdapterFile> file = ReadAdapter(adapter.path);
    if (!file.ok()) return named(file.status());
    if (const Status loaded = state.LoadAdapter(*file); !loaded.ok()) return named(loaded);
  }
  return Status::Ok();
}

}  // namespace ringside
