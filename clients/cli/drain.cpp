#include "clients/cli/drain.h"

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <thread>

#include "base/json/json_tree.h"
#include "clients/terminal/sanitiser.h"
#include "clients/wire/transport/http_client.h"

namespace ringside::client {
namespace {

constexpr std::chrono::milliseconds kBetweenLooks{500};

struct ServerState {
  std::string state;
  int64_t held = 0;
};

std::optional<ServerState> Ask(const HttpClient& http, const char* method, const char* path) {
  const Outcome<HttpAnswer> answer =
      std::string_view(method) == "GET" ? http.Request(method, path) : http.Request(method, path, "{}");
  const std::string failure = answer ? "The server's answer does not describe its state." : answer.failure().message;
  if (answer) {
    const nlohmann::json told = ParseJsonTree(answer->body, kLargeJson);
    try {
      return ServerState{told.at("state").get<std::string>(), told.at("conversations_held").get<int64_t>()};
    } catch (const nlohmann::json::exception&) {
    }
  }
  std::fprintf(stderr, "ringside: %s\n", Sanitise(failure).c_str());
  return std::nullopt;
}

}  // namespace

int DrainServer(const ServerAccess& server, const DrainOptions& options) {
  const HttpClient http(server.url, server.api_key);
  std::optional<ServerState> now = Ask(http, "POST", options.resume ? "/server/resume" : "/server/drain");
  while (now && options.wait && !options.resume && now->held > 0) {
    std::this_thread::sleep_for(kBetweenLooks);
    now = Ask(http, "GET", "/server");
  }
  if (!now) return 1;
  std::printf("%s, %lld conversations held\n", Sanitise(now->state).c_str(), static_cast<long long>(now->held));
  return 0;
}

}  // namespace ringside::client
