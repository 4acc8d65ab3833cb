// A ringside-server of the client's own: started with a model on a free port of loopback, ended with the client. Main
// thread only.
#pragma once

#include <sys/types.h>

#include <memory>
#include <string>

#include "clients/wire/outcome.h"
#include "clients/wire/server_url.h"

namespace ringside::client {

/// $XDG_DATA_HOME/ringside/run or ~/.local/share/ringside/run; "" if there is no such folder.
std::string DataFolder();
/// The ringside-server that lies beside this program, or else the one on the PATH.
std::string ServerProgram();

class OwnServer {
 public:
  /// What it keeps of its conversations, and the name of its log in the user's state folder.
  struct Purpose {
    std::string store_path;  // "" = nothing
    std::string log;
  };
  /// Starts the ServerProgram and waits until it answers. Fails, with the last lines of its log, if it ends.
  static Outcome<std::unique_ptr<OwnServer>> Start(const std::string& model, const Purpose& purpose);
  /// Lets it save what it has, and waits for its end.
  ~OwnServer();
  OwnServer(const OwnServer&) = delete;
  OwnServer& operator=(const OwnServer&) = delete;

  const ServerUrl& url() const { return url_; }

 private:
  OwnServer(pid_t pid, std::string log) : pid_(pid), log_(std::move(log)) {}
  Outcome<Done> WaitUntilReady();
  bool IsReady();

  pid_t pid_;  // 0 = it has ended
  const std::string log_;
  ServerUrl url_;
};

}  // namespace ringside::client
