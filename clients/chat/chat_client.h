// What a chat needs of the server, in one object: HTTP, the link, and a queue that brings the link's events to a thread
// that polls. Owned by the chat's main function; the queue is the only part that two threads touch.
#pragma once

#include <deque>
#include <mutex>
#include <optional>
#include <string>

#include "clients/wire/conversations.h"
#include "clients/wire/server_access.h"
#include "clients/wire/session_link.h"

namespace ringside::client {

/// Unbounded on purpose: it holds what one answer says between two looks.
class EventQueue {
 public:
  EventQueue();
  ~EventQueue();
  EventQueue(const EventQueue&) = delete;
  EventQueue& operator=(const EventQueue&) = delete;

  void Push(LinkEvent event);
  /// The oldest event, if there is one.
  std::optional<LinkEvent> Take();
  /// As Take, waiting for up to `timeout_ms`.
  std::optional<LinkEvent> Wait(int timeout_ms);
  /// Readable while events wait.
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

/// True for what may stand in a request's path: "conv_" and letters, digits, '-' and '_'.
bool IsConversationId(const std::string& id);

/// One line: what an answer cost.
std::string DescribeReport(const TurnReport& report);

}  // namespace ringside::client
