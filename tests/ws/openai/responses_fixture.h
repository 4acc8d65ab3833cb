// A ResponsesSocket on a scripted engine: tests send client events and read the outgoing frames as JSON.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>
#include <vector>

#include "tests/patience.h"
#include "tests/session/scripted_engine.h"
#include "ws/openai/responses/responses.h"

namespace ringside {

using Json = nlohmann::ordered_json;

/// One connection.
class TestSocket {
 public:
  explicit TestSocket(SessionTable& table, std::string principal = "me", RetryAfter retry = nullptr,
                      RunOnWorker run = nullptr)
      : outbox(std::make_shared<Outbox>([] {})),
        socket(table, std::move(principal), outbox, std::move(retry), std::move(run)) {}

  void Send(const std::string& text) { socket.OnMessage(text); }
  void Send(const Json& event) { socket.OnMessage(event.dump()); }
  /// Every pending frame.
  std::vector<Json> Frames() {
    std::vector<Json> frames;
    while (std::optional<std::string> text = outbox->Take()) frames.push_back(Json::parse(*text));
    return frames;
  }
  /// The only pending frame.
  Json Frame() {
    const std::vector<Json> frames = Frames();
    EXPECT_EQ(frames.size(), 1U);
    return frames.empty() ? Json() : frames.front();
  }
  /// The error object of the only pending frame, an `error`.
  Json Error() {
    const Json frame = Frame();
    EXPECT_EQ(frame.value("type", ""), "error") << frame;
    return frame.value("error", Json());
  }

  std::shared_ptr<Outbox> outbox;
  ResponsesSocket socket;
};

inline std::vector<std::string> Types(const std::vector<Json>& frames) {
  std::vector<std::string> types;
  for (const Json& frame : frames) types.push_back(frame.at("type"));
  return types;
}

/// Waits until another thread makes the condition true.
template <class Condition>
bool Eventually(const Condition& condition) {
  for (const auto until = std::chrono::steady_clock::now() + Patience(); std::chrono::steady_clock::now() < until;) {
    if (condition()) return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  return condition();
}

class ResponsesTest : public ::testing::Test, protected TableFixture {
 protected:
  explicit ResponsesTest(const std::string& family = "chatml") : TableFixture(TableFixture::Options(), family) {}
  std::string NewConversation() { return table.CreateSession({"me", 0}, {}, {}, {})->id; }
  static Json Create(Json fields = Json::object()) {
    Json event = {{"type", "response.create"}};
    if (!fields.contains("input")) event["input"] = "Hi";
    event.update(fields);
    return event;
  }

  TestSocket client{table};
};

}  // namespace ringside
