// A conversation's line to its server, over as many sockets as it takes. Runs one turn or verb at a time; when the
// socket is lost in the middle of one it connects again (exponential backoff with full jitter), attaches to the session
// behind the last event it has seen and goes on: no text is lost or given twice. Between turns a lost socket is simply
// reopened when the next turn needs it. Made and called from any thread; what happens is told on the IoRuntime's
// thread.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>

#include "clients/wire/client_event.h"
#include "clients/wire/server_event.h"
#include "clients/wire/socket.h"

namespace ringside::client {

struct LinkEvent {
  enum class Kind {
    kStarted,     // the server has taken the turn: server.response_id
    kReasoning,   // text: the reasoning continues; no text of the answer has come yet
    kText,        // text: the answer goes on
    kRestarted,   // text: the whole answer so far; what was given before is void
    kFinished,    // the turn is over: server
    kRefused,     // the turn was refused and never ran: message, server.error
    kUnknown,     // the turn is over, but how was missed: server.response_id may tell (see GetResponse)
    kVerbDone,    // server: kRewound or kForked
    kVerbFailed,  // message
    kLost,        // the turn or verb is given up: message; the server may still finish it
    kRetrying,    // the connection is lost: message, attempt, delay
    kRestored,    // the connection is back
    kNotice,      // server: kEvicted, kDraining or kQueued
  };
  Kind kind;
  std::string text = {};
  std::string message = {};  // a sentence
  ServerEvent server = {};
  int attempt = 0;
  std::chrono::milliseconds delay{0};

  /// True if no more events follow for the turn or verb.
  bool ends() const;
};

struct LinkOptions {
  ServerUrl url;
  std::string api_key;
  // A server that is back is found within a second, and one that loads a large model is waited for.
  int max_attempts = 120;  // in a row without a connection
  std::chrono::milliseconds first_delay{100};
  std::chrono::milliseconds longest_delay{1000};
};

class SessionLink {
 public:
  /// `on_event` is called on the runtime's thread and never after the destructor has returned. `runtime` outlives the
  /// link.
  SessionLink(IoRuntime& runtime, LinkOptions options, std::function<void(LinkEvent)> on_event);
  ~SessionLink();
  SessionLink(const SessionLink&) = delete;
  SessionLink& operator=(const SessionLink&) = delete;

  /// Begins a turn, a rewind or a fork. One at a time: wait for the event that ends() the one before.
  void StartTurn(TurnRequest turn);
  void Rewind(const std::string& session, int64_t to);
  void Fork(const std::string& session, std::optional<int64_t> at);
  /// Asks the server to stop the answer, which then ends with kFinished and status "cancelled". Without a connection
  /// it gives the turn up instead.
  void Cancel();
  /// Gives up at once: kLost if something was running.
  void Abandon();
  /// Cuts the socket as a lost network would; for tests.
  void DropSocket();

 private:
  class Core;
  std::shared_ptr<Core> core_;
};

}  // namespace ringside::client
