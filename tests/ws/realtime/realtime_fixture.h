// A Realtime connection to a table on a scripted engine.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "tests/session/scripted_engine.h"
#include "ws/realtime/realtime.h"

namespace ringside {

class RealtimeFixture : public ::testing::Test, protected TableFixture {
 protected:
  using Json = nlohmann::ordered_json;

  explicit RealtimeFixture(const std::string& family = "chatml") : TableFixture(TableFixture::Options(), family) {}
  inline static const Json kCreate = {{"type", "response.create"}};
  /// One connection, opened. Checks the members that all events have.
  class Client {
   public:
    explicit Client(SessionTable& table, std::vector<std::pair<std::string, std::string>> query = {},
                    std::string session = "") {
      HttpRequest request;
      request.principal = "me";
      request.session = std::move(session);
      request.query = std::move(query);
      const SocketRoute route = RealtimeRoute(table);
      EXPECT_TRUE(route.admit(request).ok());
      face_ = route.open(request, outbox);
      face_.on_opened();
    }
    void Close() { face_.on_closed(); }
    void Send(const Json& event) { face_.on_message(event.dump()); }
    void SendText(const std::string& text) { face_.on_message(text); }
    bool busy() const { return face_.busy(); }
    std::vector<Json> Events() {
      std::vector<Json> events;
      while (const std::optional<std::string> text = outbox->Take()) {
        events.push_back(Json::parse(*text));
        EXPECT_TRUE(events.back()["type"].is_string() && events.back()["event_id"].is_string()) << *text;
      }
      return events;
    }
    /// The only pending event, of this type.
    Json Event(const std::string& type) {
      const std::vector<Json> events = Events();
      EXPECT_THAT(events, ::testing::SizeIs(1)) << Json(events);
      if (events.size() != 1) return Json();
      EXPECT_EQ(events[0]["type"], type) << events[0];
      return events[0];
    }
    void ExpectError(const std::string& code, const Json& param, const Json& event_id = nullptr) {
      const Json error = Event("error")["error"];
      EXPECT_EQ(error["code"], code) << error;
      EXPECT_EQ(error["param"], param) << error;
      EXPECT_EQ(error["event_id"], event_id) << error;
      EXPECT_TRUE(error["type"].is_string() && error["message"].is_string());
    }
    /// Adds a message; returns the item as reported.
    Json Say(const std::string& text, const Json& more = Json::object()) {
      Json item = {{"type", "message"}, {"role", "user"}, {"content", Json::array({Text(text)})}};
      item.update(more);
      Send({{"type", "conversation.item.create"}, {"item", item}});
      const std::vector<Json> events = Events();
      EXPECT_EQ(Types(events), (std::vector<std::string>{"conversation.item.added", "conversation.item.done"}))
          << Json(events);
      return events.empty() ? Json() : events[0]["item"];
    }

    /// Called where the connection's strand would be woken.
    std::shared_ptr<std::function<void()>> woken = std::make_shared<std::function<void()>>([] {});
    std::shared_ptr<Outbox> outbox = std::make_shared<Outbox>([woken = woken] { (*woken)(); });

   private:
    SocketFace face_;
  };

  static Json Text(const std::string& text) { return {{"type", "input_text"}, {"text", text}}; }
  static std::vector<std::string> Types(const std::vector<Json>& events) {
    std::vector<std::string> types;
    for (const Json& event : events) types.push_back(event["type"]);
    return types;
  }
  /// A connection whose greeting has been read.
  Client Open(std::vector<std::pair<std::string, std::string>> query = {}) {
    Client opened(table, std::move(query));
    conversation_ = opened.Event("session.created")["session"]["ringside"]["conversation"];
    return opened;
  }
  std::vector<Item> Items() {
    const Result<SharedList<Item>> items = table.GetItems({"me", 0}, conversation_);
    EXPECT_TRUE(items.ok());
    return items.ok() ? std::vector<Item>(items->begin(), items->end()) : std::vector<Item>();
  }
  std::vector<std::string> Texts() {
    std::vector<std::string> texts;
    const std::vector<Item> items = Items();
    for (const Item& item : items) texts.push_back(item.text);
    return texts;
  }
  std::string Prompt() { return tokenizer.Decode(engine.last().tokens); }

  std::string conversation_;
};

}  // namespace ringside
