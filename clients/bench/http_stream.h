// One POST whose answer is streamed as server-sent events. All functions and handlers run on the IoRuntime's thread.
// Pending operations keep it alive; its owner must call Close before dropping it.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "clients/wire/transport/io_runtime.h"
#include "clients/wire/transport/server_url.h"

namespace ringside::client {

/// How an answer ended.
struct HttpStreamEnd {
  int status = 0;      // 0 = no answer
  std::string body;    // the beginning of an answer that is not an event stream
  std::string reason;  // a few words if the answer is incomplete
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

  /// Closes the connection; no handler is called afterwards.
  virtual void Close() = 0;
};

}  // namespace ringside::client
