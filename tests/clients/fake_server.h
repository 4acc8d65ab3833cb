// A scripted server for tests of the wire client: one function handles every WebSocket, another every HTTP request. One
// thread per connection, blocking. Owned by a test.
#pragma once

#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>

#include "clients/wire/transport/server_url.h"

namespace ringside::client {

/// A WebSocket connection as seen by the script.
class FakeSocket {
 public:
  virtual ~FakeSocket() = default;
  /// The next message; a null value once the client is gone.
  virtual nlohmann::json Read() = 0;
  virtual void Send(const nlohmann::json& message) = 0;
  /// Cuts the connection without a close frame.
  virtual void Drop() = 0;
  /// Closes with a code.
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
    /// The HTTP status for refusing an upgrade; 0 = accept it.
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
