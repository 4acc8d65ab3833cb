// A server for tests of the wire client, as a script: every WebSocket is handed to one function, every HTTP request to
// another. One thread per connection, everything blocking. Owned by a test.
#pragma once

#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>

#include "clients/wire/server_url.h"

namespace ringside::client {

/// One WebSocket connection as the script sees it.
class FakeSocket {
 public:
  virtual ~FakeSocket() = default;
  /// The next message; a null value once the client is gone.
  virtual nlohmann::json Read() = 0;
  virtual void Send(const nlohmann::json& message) = 0;
  /// Cuts the line without a goodbye.
  virtual void Drop() = 0;
  /// Says goodbye with a code.
  virtual void Close(uint16_t code) = 0;
};

struct FakeRequest {
  std::string method, target, body, authorization, content_type;
};

struct FakeAnswer {
  int status = 200;
  std::string body;
};

class FakeServer {
 public:
  struct Script {
    /// `number` counts the sockets from 0.
    std::function<void(FakeSocket&, int number)> on_socket;
    std::function<FakeAnswer(const FakeRequest&)> on_request;
    /// The HTTP status that an upgrade is refused with; 0 = it is granted.
    std::function<int(int number)> refuse_upgrade;
  };

  explicit FakeServer(Script script);
  ~FakeServer();
  ServerUrl url() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace ringside::client
