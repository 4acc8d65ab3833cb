// One WebSocket connection to a server. Opens, reads until the end, writes one frame at a time, pings an idle peer so
// that a dead link is noticed. Lives on an IoRuntime: every function is called there and every handler is called there.
// Kept alive by its own pending operations; whoever drops it first calls Close.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "clients/wire/io_runtime.h"
#include "clients/wire/server_url.h"

namespace ringside::client {

/// Why a connection is over.
struct SocketEnd {
  uint16_t close_code = 1006;  // 1006: no close frame came
  int http_status = 0;         // the upgrade was refused with it; 0 = it was not
  std::string reason;          // a few words
  int64_t retry_after_ms = 0;  // what a refusing server asked for

  /// False where another attempt would meet the same refusal: bad key, session gone, taken over, policy.
  bool worth_retrying() const;
};

class Socket {
 public:
  struct Handlers {
    std::function<void()> on_open;
    std::function<void(std::string_view)> on_message;  // one whole message
    std::function<void(const SocketEnd&)> on_end;      // the last call; never after Close
  };

  /// Starts connecting to the responses endpoint. `api_key` may be empty.
  static std::shared_ptr<Socket> Open(IoRuntime& runtime, const ServerUrl& url, const std::string& api_key,
                                      Handlers handlers);
  virtual ~Socket() = default;

  /// Queues a text frame. Lost if the connection ends first.
  virtual void Send(std::string frame) = 0;
  /// Says goodbye if it can; no handler is called from now on.
  virtual void Close() = 0;
};

}  // namespace ringside::client
