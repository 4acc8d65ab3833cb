// Model::LoadAdapters: from files to all ranks' devices.
#include <fmt/format.h>

#include "engine/model/model_state.h"
#include "engine/model/weights/model_fingerprint.h"

namespace ringside {

Status Model::State::LoadAdapter(const NamedAdapter& adapter) {
  const bool lora = adapter.kind == NamedAdapter::Kind::kLora;
  AdapterFile file;
  SoftPrompt prompt;
  if (lora) {
    ASSIGN_OR_RETURN(file, ReadAdapter(adapter.path));
  } else {
    ASSIGN_OR_RETURN(prompt, ReadSoftPrompt(adapter.path));
  }
  RETURN_IF_ERROR(group.Try([&](size_t here) {
    Backend& backend = *backends[here];
    Result<AdapterWeights> weights = lora ? ringside::LoadAdapter(file, planned, gguf, spec, shards[here], backend)
                                          : LoadSoftPrompt(prompt, spec, shards[here], backend);
    RETURN_IF_ERROR(weights.status());
    decoders[here]->AddAdapter(std::move(*weights));
    return Status::Ok();
  }));
  weight_bytes = 0;
  for (const auto& decoder : decoders) weight_bytes += decoder->weight_bytes();
  adapter_fingerprints.push_back(FingerprintUnder(fingerprint, lora ? file.Digest() : prompt.Digest()));
  virtual_tokens.push_back(prompt.rows);
  return Status::Ok();
}

Status Model::LoadAdapters(std::span<const NamedAdapter> adapters) {
  if (adapters.empty()) return Status::Ok();
  State& state = *state_;
  const char* const kind = adapters.front().kind_name();
  if (state.others != nullptr) return InvalidArgument("adapters are supported in a single process only", kind);
  if (state.spec.encoder_layers > 0)
    return InvalidArgument("adapters are not supported for a model with an encoder", kind);
  for (const NamedAdapter& adapter : adapters) {
    const Status status = state.LoadAdapter(adapter);
    if (status.ok()) continue;
    const bool has_path = status.message().starts_with(adapter.path);
    return Status(
        status.code(),
        fmt::format("adapter '{}'{}: {}", adapter.name, has_path ? "" : " (" + adapter.path + ")", status.message()),
        adapter.kind_name());
  }
  return state.group.Try([&](size_t here) { return state.decoders[here]->PackAdapters(); });
}

}  // namespace ringside
