// One WebSocket connection to a server. Opens, reads until the end, writes one frame at a time, and pings an idle peer
// to detect a dead link. All functions and handlers run on the IoRuntime's thread. Pending operations keep it alive;
// its owner must call Close before dropping it.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "clients/wire/transport/io_runtime.h"
#include "clients/wire/transport/server_url.h"

namespace ringside::client {

/// Why a connection ended.
struct SocketEnd {
  uint16_t close_code = 1006;  // 1006: no close frame received
  int http_status = 0;         // status of a refused upgrade; 0 = not refused
  std::string reason;          // a few words
  int64_t retry_after_ms = 0;  // the refusing server's retry delay

  /// False if a retry would be refused again: bad key, session gone, taken over, policy.
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

  /// Queues a text frame. It is lost if the connection ends first.
  virtual void Send(std::string frame) = 0;
  /// Sends a close frame if possible; no handler is called afterwards.
  virtual void Close() = 0;
};

}  // namespace ringside::client
