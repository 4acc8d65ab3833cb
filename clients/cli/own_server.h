// A private ringside-server: started with a model on a free loopback port, stopped with the client. THREAD: main.
#pragma once

#include <sys/types.h>

#include <memory>
#include <string>

#include "clients/wire/outcome.h"
#include "clients/wire/transport/server_url.h"

namespace ringside::client {

/// $XDG_DATA_HOME/ringside/run or ~/.local/share/ringside/run; "" if there is no such folder.
std::string DataFolder();

class OwnServer {
 public:
  /// Where it stores its conversations, and the name of its log in the user's state folder.
  struct Purpose {
    std::string store_path;  // "" = nowhere
    std::string log;
  };
  /// Starts the ringside-server next to this program, or else on the PATH, and waits until it answers. If it exits,
  /// fails with the last lines of its log.
  static Outcome<std::unique_ptr<OwnServer>> Start(const std::string& model, const Purpose& purpose);
  /// Lets the server save its state and waits for it to exit.
  ~OwnServer();
  OwnServer(const OwnServer&) = delete;
  OwnServer& operator=(const OwnServer&) = delete;

  const ServerUrl& url() const { return url_; }

 private:
  OwnServer(pid_t pid, std::string log) : pid_(pid), log_(std::move(log)) {}
  Outcome<Done> WaitUntilReady();
  bool IsReady();

  pid_t pid_;  // 0 = exited
  const std::string log_;
  ServerUrl url_;
};

}  // namespace ringside::client
