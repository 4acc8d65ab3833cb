// The folders in which programs of this machine store models. Read from the environment, as each program does; a folder
// need not exist. THREAD: any.
#pragma once

#include <string>
#include <vector>

namespace ringside::client {

/// The models that `ringside pull` fetched: $XDG_CACHE_HOME/ringside/models or ~/.cache/ringside/models; "" without
/// either variable.
std::string ModelsFolder();
/// Hugging Face's cache: $HF_HUB_CACHE, $HF_HOME/hub, or huggingface/hub in the user's cache folder; "" if unknown.
std::string HuggingFaceFolder();
/// $OLLAMA_MODELS, or those of the user and of the service.
std::vector<std::string> OllamaFolders();
/// Those of current and of older versions.
std::vector<std::string> LmStudioFolders();

}  // namespace ringside::client
