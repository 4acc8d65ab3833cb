#include "base/cli/their_settings.h"

#include <algorithm>
#include <iterator>
#include <vector>

#include "base/cli/near_name.h"

namespace ringside {
namespace {

constexpr TheirSetting kTheirSettings[] = {
    {"c", "llama.cpp's", "--memory-len here"},
    {"ctx-size", "llama.cpp's", "--memory-len here"},
    {"ngl", "llama.cpp's", "--device cuda here: all layers run there"},
    {"gpu-layers", "llama.cpp's", "--device cuda here: all layers run there"},
    {"n-gpu-layers", "llama.cpp's", "--device cuda here: all layers run there"},
    {"t", "llama.cpp's", "--threads here"},
    {"np", "llama.cpp's", "--slots here"},
    {"b", "llama.cpp's", "--step-tokens here"},
    {"batch-size", "llama.cpp's", "--step-tokens here"},
    {"ub", "llama.cpp's", "--prefill-chunk here"},
    {"ubatch-size", "llama.cpp's", "--prefill-chunk here"},
    {"ctk", "llama.cpp's", "--kv-cache-dtype here"},
    {"cache-type-k", "llama.cpp's", "--kv-cache-dtype here"},
    {"cache-type-v", "llama.cpp's", "--kv-cache-dtype here"},
    {"n", "llama.cpp's", "--max-output-tokens here"},
    {"n-predict", "llama.cpp's", "--max-output-tokens here"},
    {"temp", "llama.cpp's", "--temperature here"},
    {"slot-save-path", "llama.cpp's", "--store-path here"},
    {"cont-batching", "llama.cpp's", "always on here"},
    {"fa", "llama.cpp's", "always on here"},
    {"flash-attn", "llama.cpp's", "always on here"},
    {"jinja", "llama.cpp's", "always on here"},
    {"chat-template-file", "llama.cpp's", "--chat-template here"},
    {"hf", "llama.cpp's", "a separate step here: ringside pull hf:OWNER/REPO"},
    {"hf-repo", "llama.cpp's", "a separate step here: ringside pull hf:OWNER/REPO"},
    {"mlock", "llama.cpp's", "not needed here: the weights are in memory"},
    {"no-mmap", "llama.cpp's", "not needed here: the weights are in memory"},
    {"split-mode", "llama.cpp's", "--tensor-parallel-size or --pipeline-parallel-size here"},
    {"sm", "llama.cpp's", "--tensor-parallel-size or --pipeline-parallel-size here"},
    {"max-model-len", "vLLM's", "--memory-len here"},
    {"max-num-batched-tokens", "vLLM's", "--step-tokens here"},
    {"enable-prefix-caching", "vLLM's", "always on here"},
    {"enable-chunked-prefill", "vLLM's", "always on here"},
    {"enable-auto-tool-choice", "vLLM's", "always on here"},
    {"tool-call-parser", "vLLM's", "found from the model's template here"},
    {"reasoning-parser", "vLLM's", "found from the model's template here"},
    {"enable-lora", "vLLM's", "--lora here"},
    {"swap-space", "vLLM's", "--host-cache-mb here"},
    {"trust-remote-code", "vLLM's", "not needed here: no code of a model is run"},
    {"enforce-eager", "vLLM's", "not needed here"},
    {"model-path", "SGLang's", "--model here"},
    {"mem-fraction-static", "SGLang's", "--gpu-memory-utilization here"},
    {"context-length", "SGLang's", "--memory-len here"},
    {"max-running-requests", "SGLang's", "--slots here"},
    {"chunked-prefill-size", "SGLang's", "--prefill-chunk here"},
    {"cache-max-entry-count", "LMDeploy's", "--gpu-memory-utilization here"},
    {"num-ctx", "Ollama's", "--memory-len here"},
    {"num-gpu", "Ollama's", "--device cuda here: all layers run there"},
    {"num-parallel", "Ollama's", "--slots here"},
    {"keep-alive", "Ollama's", "not needed here: a model stays loaded"},
};

constexpr size_t kLongestShortFlag = 3;  // llama.cpp's -ngl

}  // namespace

std::string TheirSetting::Describe() const {
  const char* dashes = name.size() <= kLongestShortFlag ? "-" : "--";
  return std::string(server) + " " + dashes + std::string(name) + " is " + std::string(here);
}

const TheirSetting* FindTheirSetting(std::string_view given) {
  std::string name(given);
  std::replace(name.begin(), name.end(), '_', '-');
  const auto find = [](std::string_view wanted) {
    const auto* found = std::ranges::find(kTheirSettings, wanted, &TheirSetting::name);
    return found != std::end(kTheirSettings) ? found : nullptr;
  };
  if (const TheirSetting* exact = find(name)) return exact;
  std::vector<std::string_view> names;
  for (const TheirSetting& theirs : kTheirSettings) {
    if (theirs.name.size() > kLongestShortFlag) names.push_back(theirs.name);
  }
  return find(NearName(name, names));
}

}  // namespace ringside
