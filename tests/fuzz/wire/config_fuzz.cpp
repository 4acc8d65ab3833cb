// The server's configuration file, and settings from its environment. Input: the file, then lines NAME=VALUE.
#include <map>

#include "tests/fuzz/fuzz_target.h"
#include "ws/config/config.h"

namespace ringside {

std::vector<std::string> Seeds() {
  return {JoinParts({R"(model: /m.gguf
host: 0.0.0.0
port: 8080
api-key: [a, b]
allow-public: true
slots: 4
memory-len: 2048
temperature: 0.7
eviction: token
kv-cache-dtype: f16
session-idle-host: 1.5
)",
                     "RINGSIDE_PORT=9\nRINGSIDE_STORE_PATH=/x\nRINGSIDE_MAX_OUTPUT_TOKENS=5\n"}),
          JoinParts({R"(# a comment
model: &a "m"
served-model-name: *a
allowed-origins:
  - https://x.example
log-level: debug
durability: turn
)",
                     "RINGSIDE_API_KEY=k\nRINGSIDE_HOST_CACHE_MB=64\nRINGSIDE_STORE_PATH=/x\nHOME=/\n"})};
}

}  // namespace ringside

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace ringside;
  static const InputFolder folder;
  const auto parts = SplitParts(data, size, 2);
  std::map<std::string, std::string> environment;
  for (std::string_view rest = parts[1]; !rest.empty();) {
    const std::string_view line = rest.substr(0, rest.find('\n'));
    rest.remove_prefix(std::min(line.size() + 1, rest.size()));
    const size_t equals = std::min(line.find('='), line.size());
    environment.emplace(line.substr(0, equals), line.substr(std::min(equals + 1, line.size())));
  }
  const Result<ParsedConfig> parsed = ParseConfig({"--config", folder.Write("config.yaml", parts[0])}, environment);
  Require(parsed.ok() || parsed.status().code() == StatusCode::kInvalidArgument, "a wrong setting is said to be one");
  Require(parsed.ok() || !parsed.status().message().empty(), "what is wrong is said");
  return 0;
}
