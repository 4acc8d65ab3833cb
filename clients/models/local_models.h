// The models on this machine: found by name and place, not opened. THREAD: any.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "clients/wire/outcome.h"

namespace ringside::client {

struct LocalModel {
  std::string name;   // "Qwen3-4B-Q4_K_M", "Qwen/Qwen3-4B", "qwen3:4b"
  std::string place;  // "ringside", "Hugging Face", "LM Studio", "Ollama"
  std::string path;   // for --model
  uint64_t bytes = 0;
};

/// All models in the folders of Ringside, Hugging Face, LM Studio and Ollama (model_folders.h), in this order and by
/// name. Unreadable folders are skipped.
std::vector<LocalModel> FindLocalModels();

/// The models that a name means, without regard to case: a whole name, that of its repository, or its beginning up to a
/// quantisation. One model in several places is found in the first place only.
std::vector<LocalModel> ModelsNamed(const std::vector<LocalModel>& models, std::string_view name);

}  // namespace ringside::client
