// The server's configuration file, and settings from its environment. Input: the file, then lines NAME=VALUE.
#include <map>

#include "tests/fuzz/fuzz_target.h"
#include "ws/config/config.h"

namespace ringside {

std::vector<std::string> Seeds() {
  return {JoinParts({"model: /m.gguf\nhost: 0.0.0.0\nport: 8080\napi-key: [a, b]\nallow-public: true\nslots: "
                     "4\nmemory-len: 2048\n"
                     "temperature: 0.7\ntop-p: 0.9\neviction: token\nkv-cache-dtype: f16\nsession-idle-host: 1.5\n",
                     "RINGSIDE_PORT=9\nRINGSIDE_STORE_PATH=/x\nRINGSIDE_MAX_OUTPUT_TOKENS=5\n"}),
          JoinParts({"# c\nmodel: &a \"m\"\nallowed-origin:\n  - https://x.example\n  - *a\nlog-level: "
                     "debug\nstore-durability: turn\n",
                     "RINGSIDE_API_KEY=k\nRINGSIDE_ALLOWED_ORIGIN=*\nHOME=/\n"})};
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
