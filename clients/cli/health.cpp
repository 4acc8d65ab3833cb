#include "clients/cli/health.h"

#include <chrono>

#include "clients/wire/transport/http_client.h"

namespace ringside::client {

Outcome<Done> AskWhetherReady(ServerUrl url) {
  url.base_path = "";
  const Outcome<HttpAnswer> answer = HttpClient(std::move(url), "", std::chrono::seconds(10)).Request("GET", "/readyz");
  if (!answer) return answer.failure();
  return Done{};
}

}  // namespace ringside::client
