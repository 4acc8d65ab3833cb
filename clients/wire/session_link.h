// A conversation's connection to its server, over any number of sockets. Runs one turn or verb at a time. If the socket
// is lost meanwhile, it reconnects (exponential backoff with full jitter), resumes the session after the last event
// received and continues: no text is lost or duplicated. Between turns a lost socket is reopened only when the next
// turn needs it. Created and called from any thread; events are delivered on the IoRuntime's thread.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>

#include "clients/wire/client_event.h"
#include "clients/wire/server_event.h"
#include "clients/wire/transport/socket.h"

namespace ringside::client {

struct LinkEvent {
  enum class Kind {
    kStarted,     // the server has accepted the turn: server.response_id
    kReasoning,   // text: the reasoning continues; no text of the answer has come yet
    kText,        // text: the answer continues
    kRestarted,   // text: the whole answer so far, which replaces the text delivered before
    kFinished,    // the turn is over: server
    kRefused,     // the turn was refused and never ran: message, server.error
    kUnknown,     // the turn is over but its end was missed; GetResponse(server.response_id) may return it
    kVerbDone,    // server: kRewound or kForked
    kVerbFailed,  // message
    kLost,        // the turn or verb is abandoned: message; the server may still finish it
    kRetrying,    // the connection is lost: message, attempt, delay
    kRestored,    // the connection is restored
    kNotice,      // server: kEvicted, kDraining or kQueued
  };
  Kind kind;
  std::string text = {};
  std::string message = {};  // a sentence
  ServerEvent server = {};
  int attempt = 0;
  std::chrono::milliseconds delay{0};

  /// True if this is the last event of the turn or verb.
  bool ends() const;
};

struct LinkOptions {
  ServerUrl url;
  std::string api_key;
  // Reconnects within a second to a server that is up again, and waits for one that loads a large model.
  int max_attempts = 120;  // consecutive attempts without a connection
  std::chrono::milliseconds first_delay{100};
  std::chrono::milliseconds longest_delay{1000};
};

class SessionLink {
 public:
  /// `on_event` runs on the runtime's thread, and never after the destructor has returned. REQUIRES: `runtime` outlives
  /// the link.
  SessionLink(IoRuntime& runtime, LinkOptions options, std::function<void(LinkEvent)> on_event);
  ~SessionLink();
  SessionLink(const SessionLink&) = delete;
  SessionLink& operator=(const SessionLink&) = delete;

  /// Starts a turn, a rewind or a fork. REQUIRES: the previous one has delivered its ends() event.
  void StartTurn(TurnRequest turn);
  void Rewind(const std::string& session, int64_t to);
  void Fork(const std::string& session, std::optional<int64_t> at);
  /// Asks the server to stop the answer, which then ends with kFinished and status "cancelled". Without a connection,
  /// abandons the turn.
  void Cancel();
  /// Abandons at once: kLost if something was running.
  void Abandon();
  /// Cuts the socket like a lost network; for tests.
  void DropSocket();

 private:
  class Core;
  std::shared_ptr<Core> core_;
};

}  // namespace ringside::client
