// A chat's connection to the server: HTTP, the link, and a queue that passes the link's events to a polling thread.
// Owned by the chat's main function; only the queue is shared between threads.
#pragma once

#include <deque>
#include <mutex>
#include <optional>
#include <string>

#include "clients/wire/conversations.h"
#include "clients/wire/server_access.h"
#include "clients/wire/session_link.h"

namespace ringside::client {

/// Unbounded on purpose: it holds one answer's events between two polls.
class EventQueue {
 public:
  EventQueue();
  ~EventQueue();
  EventQueue(const EventQueue&) = delete;
  EventQueue& operator=(const EventQueue&) = delete;

  void Push(LinkEvent event);
  /// Removes and returns the oldest event, if any.
  std::optional<LinkEvent> Take();
  /// As Take, waiting for up to `timeout_ms`.
  std::optional<LinkEvent> Wait(int timeout_ms);
  /// Readable while events are pending.
  int fd() const { return fd_; }

 private:
  std::mutex mutex_;
  std::deque<LinkEvent> events_;
  int fd_;
};

class ChatClient {
 public:
  explicit ChatClient(const ServerAccess& server);

  const HttpClient& http() const { return http_; }
  SessionLink& link() { return link_; }
  EventQueue& events() { return events_; }

 private:
  HttpClient http_;
  EventQueue events_;
  IoRuntime runtime_;
  SessionLink link_;
};

/// True if the id is safe in a request path: "conv_" and letters, digits, '-' and '_'.
bool IsConversationId(const std::string& id);

/// One line with an answer's cost.
std::string DescribeReport(const TurnReport& report);

}  // namespace ringside::client
