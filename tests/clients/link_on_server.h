// A SessionLink on a scripted server, for tests of its events. Owned by a test.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <optional>
#include <string>
#include <utility>

#include "clients/chat/chat_client.h"
#include "tests/clients/fake_server.h"

namespace ringside::client {

inline constexpr int kLinkPatienceMs = 20000;

/// A link on a scripted server, and its recorded events.
class LinkOnServer {
 public:
  explicit LinkOnServer(FakeServer::Script script, int max_attempts = 10,
                        std::chrono::milliseconds first_delay = std::chrono::milliseconds(1),
                        std::chrono::milliseconds longest_delay = std::chrono::milliseconds(5))
      : server_(std::move(script)),
        link_(runtime_,
              {.url = server_.url(),
               .api_key = "key",
               .max_attempts = max_attempts,
               .first_delay = first_delay,
               .longest_delay = longest_delay},
              [this](LinkEvent event) { events_.Push(std::move(event)); }) {}

  /// Waits for the event that ends the turn or verb; accumulates the text.
  LinkEvent WaitForEnd() {
    while (true) {
      std::optional<LinkEvent> event = events_.Wait(kLinkPatienceMs);
      if (!event) {
        ADD_FAILURE() << "no event";
        return {LinkEvent::Kind::kLost};
      }
      if (event->kind == LinkEvent::Kind::kReasoning) reasoning += event->text;
      if (event->kind == LinkEvent::Kind::kText) text += event->text;
      if (event->kind == LinkEvent::Kind::kRestarted) text = event->text;
      if (event->kind == LinkEvent::Kind::kRetrying) {
        ++retries;
        longest_delay = std::max(longest_delay, event->delay);
      }
      if (event->kind == LinkEvent::Kind::kRestored) ++restores;
      if (event->ends()) return *event;
    }
  }
  /// Waits for an intermediate event of a kind.
  void WaitFor(LinkEvent::Kind kind) {
    while (const std::optional<LinkEvent> event = events_.Wait(kLinkPatienceMs)) {
      if (event->kind == LinkEvent::Kind::kText) text += event->text;
      if (event->kind == kind) return;
      ASSERT_FALSE(event->ends());
    }
    FAIL() << "no event";
  }
  SessionLink& link() { return link_; }

  std::string text, reasoning;
  int retries = 0, restores = 0;
  std::chrono::milliseconds longest_delay{0};

 private:
  EventQueue events_;
  FakeServer server_;
  IoRuntime runtime_;
  SessionLink link_;
};

}  // namespace ringside::client
