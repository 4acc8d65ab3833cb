#include "clients/cli/backup.h"

#include <chrono>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <string>

#include "base/json/json_tree.h"
#include "clients/terminal/sanitiser.h"
#include "clients/wire/transport/http_client.h"

namespace ringside::client {
namespace {

// Copies a store file by file if the backup is on another file system.
constexpr std::chrono::minutes kPatience{60};

}  // namespace

int MakeBackup(const ServerAccess& server) {
  const HttpClient http(server.url, server.api_key, kPatience);
  const Outcome<HttpAnswer> answer = http.Request("POST", "/store/backup", "{}");
  if (!answer) {
    std::fprintf(stderr, "ringside: %s\n", Sanitise(answer.failure().message).c_str());
    return 1;
  }
  const nlohmann::json made = ParseJsonTree(answer->body, kLargeJson);
  const auto name = made.is_object() ? made.find("name") : made.end();
  if (name == made.end() || !name->is_string()) {
    std::fprintf(stderr, "ringside: The server's answer does not name a backup.\n");
    return 1;
  }
  std::printf("%s\n", Sanitise(name->get<std::string>()).c_str());
  return 0;
}

}  // namespace ringside::client
