// Settings of other servers (llama.cpp, vLLM, SGLang, LMDeploy, Ollama) and their equivalents here, for error messages.
// Pure functions. THREAD: any.
#pragma once

#include <string>
#include <string_view>

namespace ringside {

struct TheirSetting {
  std::string_view name;    // without dashes
  std::string_view server;  // "vLLM's"
  std::string_view here;    // the setting to use instead, or the effect without it

  /// "vLLM's --max-model-len is --memory-len here".
  std::string Describe() const;
};

/// The setting with this name, or the one that is nearest to it (base/cli/near_name.h); null if there is none.
/// Underscores count as dashes.
const TheirSetting* FindTheirSetting(std::string_view name);

}  // namespace ringside
