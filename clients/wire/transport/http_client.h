// Plain HTTP requests to a server, one at a time and blocking, for requests between turns. Owned by its user; not
// shared between threads.
#pragma once

#include <chrono>
#include <string>

#include "clients/wire/outcome.h"
#include "clients/wire/transport/server_url.h"

namespace ringside::client {

struct HttpAnswer {
  int status = 0;
  std::string body;
};

class HttpClient {
 public:
  /// `api_key` may be empty; `timeout` is the longest time without progress, so large transfers are not limited.
  HttpClient(ServerUrl url, std::string api_key, std::chrono::seconds timeout = std::chrono::seconds(30))
      : url_(std::move(url)), api_key_(std::move(api_key)), timeout_(timeout) {}

  const ServerUrl& url() const { return url_; }
  const std::string& api_key() const { return api_key_; }

  /// `method` is GET, POST or DELETE, `path` is below the base path ("/conversations"), `body` is for POST only. Fails
  /// if there is no answer, and for status 400 and above with the server's message.
  Outcome<HttpAnswer> Request(const std::string& method, const std::string& path, const std::string& body = "",
                              const std::string& content_type = "application/json") const;

 private:
  const ServerUrl url_;
  const std::string api_key_;
  const std::chrono::seconds timeout_;
};

}  // namespace ringside::client
