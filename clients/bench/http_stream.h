// One POST whose answer is read while it comes, as server-sent events. Lives on an IoRuntime: every function is called
// there and every handler is called there. Kept alive by its own pending operations; whoever drops it first calls
// Close.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "clients/wire/io_runtime.h"
#include "clients/wire/server_url.h"

namespace ringside::client {

/// How an answer ended.
struct HttpStreamEnd {
  int status = 0;      // 0 = there was no answer
  std::string body;    // where the answer was no stream of events: its beginning
  std::string reason;  // a few words if the answer did not come to its end
};

class HttpStream {
 public:
  struct Handlers {
    std::function<void(const std::string&)> on_event;  // the data of one event
    std::function<void(const HttpStreamEnd&)> on_end;  // the last call; never after Close
  };

  /// `path` is below the base path ("/chat/completions"), `body` is JSON, `api_key` may be empty.
  static std::shared_ptr<HttpStream> Post(IoRuntime& runtime, const ServerUrl& url, const std::string& api_key,
                                          const std::string& path, std::string body, Handlers handlers);
  virtual ~HttpStream() = default;

  /// Leaves; no handler is called from now on.
  virtual void Close() = 0;
};

}  // namespace ringside::client
