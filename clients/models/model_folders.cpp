#include "clients/models/model_folders.h"

#include <cstdlib>

namespace ringside::client {
namespace {

/// The variable's value if it is an absolute path, else "".
std::string AbsolutePath(const char* variable) {
  const char* value = std::getenv(variable);
  return value != nullptr && value[0] == '/' ? value : "";
}

/// `below` in the user's home folder; "" without one.
std::string InHome(const char* below) {
  const std::string home = AbsolutePath("HOME");
  return home.empty() ? "" : home + below;
}

std::string InCache(const char* below) {
  const std::string cache = AbsolutePath("XDG_CACHE_HOME");
  return cache.empty() ? InHome((std::string("/.cache") + below).c_str()) : cache + below;
}

}  // namespace

std::string ModelsFolder() { return InCache("/ringside/models"); }

std::string HuggingFaceFolder() {
  const std::string hub = AbsolutePath("HF_HUB_CACHE"), home = AbsolutePath("HF_HOME");
  return !hub.empty() ? hub : !home.empty() ? home + "/hub" : InCache("/huggingface/hub");
}

std::vector<std::string> OllamaFolders() {
  const std::string set = AbsolutePath("OLLAMA_MODELS");
  if (!set.empty()) return {set};
  return {InHome("/.ollama/models"), "/usr/share/ollama/.ollama/models"};
}

std::vector<std::string> LmStudioFolders() { return {InHome("/.lmstudio/models"), InHome("/.cache/lm-studio/models")}; }

}  // namespace ringside::client
