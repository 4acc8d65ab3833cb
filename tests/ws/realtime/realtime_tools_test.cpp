// Tools in Realtime sessions: set once for all responses, calls as items, their results as items.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "tests/session/scripted_engine.h"
#include "ws/realtime/realtime.h"

namespace ringside {
namespace {

using Json = nlohmann::ordered_json;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

const Json kWeather = {{"type", "function"},
                       {"name", "weather"},
                       {"description", "d"},
                       {"parameters", {{"type", "object"}, {"properties", {{"city", {{"type", "string"}}}}}}}};
const std::string kWeatherCall =
    "<tool_call>\n{\"name\": \"weather\", \"arguments\": {\"city\": \"Bonn\"}}\n</tool_call>";

class RealtimeTools : public ::testing::Test, protected TableFixture {
 protected:
  RealtimeTools()
      : TableFixture([] {
          SessionTableOptions options = TableFixture::Options();
          options.session_len = 9000;
          options.memory_len = 4000;
          options.pinned_max = 1024;
          return options;
        }()) {
    HttpRequest request;
    request.principal = "me";
    face_ = RealtimeRoute(table).open(request, outbox_);
    face_.on_opened();
    Events();
  }

  std::vector<Json> Send(const Json& event) {
    face_.on_message(event.dump());
    return Events();
  }
  std::vector<Json> Events() {
    std::vector<Json> events;
    while (const std::optional<std::string> text = outbox_->Take()) events.push_back(Json::parse(*text));
    return events;
  }
  static std::vector<std::string> Types(const std::vector<Json>& events) {
    std::vector<std::string> types;
    for (const Json& event : events) types.push_back(event["type"]);
    return types;
  }
  std::vector<Json> Say(Json item) { return Send({{"type", "conversation.item.create"}, {"item", std::move(item)}}); }
  std::vector<Json> Ask(Json response = Json::object()) {
    return Send({{"type", "response.create"}, {"response", std::move(response)}});
  }
  std::string Prompt() { return tokenizer.Decode(engine.last().tokens); }
  static Json User(const std::string& text) {
    return {{"type", "message"}, {"role", "user"}, {"content", {{{"type", "input_text"}, {"text", text}}}}};
  }

  std::shared_ptr<Outbox> outbox_ = std::make_shared<Outbox>([] {});
  SocketFace face_;
};

TEST_F(RealtimeTools, CallAndResult) {
  const Json session = Send({{"type", "session.update"}, {"session", {{"tools", {kWeather}}}}})[0]["session"];
  EXPECT_EQ(session["tools"][0]["name"], "weather");
  EXPECT_EQ(session["tool_choice"], "auto");
  Say(User("Hi"));
  Ask();
  EXPECT_THAT(Prompt(), HasSubstr("# Tools"));
  Events();
  engine.Start(0);
  engine.SayAtOnce(0, "Hm");
  engine.SayAtOnce(0, "\n" + kWeatherCall);
  engine.End(0);
  const std::vector<Json> events = Events();
  EXPECT_THAT(Types(events),
              ElementsAre("response.output_item.added", "conversation.item.added", "response.content_part.added",
                          "response.output_text.delta", "response.output_text.done", "response.content_part.done",
                          "response.output_item.done", "conversation.item.done", "response.output_item.added",
                          "conversation.item.added", "response.function_call_arguments.delta",
                          "response.function_call_arguments.done", "response.output_item.done",
                          "conversation.item.done", "response.done"));
  const Json call = events[12]["item"];
  EXPECT_EQ(call["type"], "function_call");
  EXPECT_EQ(call["arguments"], "{\"city\": \"Bonn\"}");
  EXPECT_EQ(events[11]["name"], "weather");
  EXPECT_EQ(events[11]["call_id"], call["call_id"]);
  EXPECT_EQ(events[13]["previous_item_id"], events[2]["item_id"]);
  EXPECT_EQ(events[14]["response"]["output"][1], call);
  EXPECT_EQ(Send({{"type", "conversation.item.retrieve"}, {"item_id", call["id"]}})[0]["item"], call);
  // The result is an item after the call.
  const std::vector<Json> made =
      Say({{"id", "mine"}, {"type", "function_call_output"}, {"call_id", call["call_id"]}, {"output", "12"}});
  EXPECT_EQ(made[0]["previous_item_id"], call["id"]);
  EXPECT_EQ(made[0]["item"]["id"], "mine");
  EXPECT_EQ(made[0]["item"]["output"], "12");
  Ask();
  EXPECT_THAT(Prompt(), HasSubstr("<|im_end|>\n<|im_start|>user\n<tool_response>\n12\n</tool_response><|im_end|>\n"));
  engine.AnswerLast("So.");
  Events();
  // Once cleared, they are no longer rendered.
  Send({{"type", "session.update"}, {"session", {{"tools", Json::array()}}}});
  Say(User("And?"));
  Ask();
  EXPECT_EQ(Prompt().find("# Tools"), std::string::npos);
}

TEST_F(RealtimeTools, OutOfBandResponseRefersToACall) {
  Say(User("Hi"));
  Ask({{"tools", {kWeather}}, {"tool_choice", "required"}});
  Events();
  engine.AnswerLast(kWeatherCall);
  const std::vector<Json> events = Events();
  const Json call = events.back()["response"]["output"][0];
  EXPECT_EQ(call["type"], "function_call");
  const Json result = {{"type", "function_call_output"}, {"call_id", call["call_id"]}, {"output", "12"}};
  const Json reference = {{"type", "item_reference"}, {"id", call["id"]}};
  Ask({{"conversation", "none"}, {"input", {User("Hi"), reference, result}}});
  EXPECT_THAT(Prompt(), HasSubstr("<|im_start|>assistant\n" + kWeatherCall +
                                  "<|im_end|>\n<|im_start|>user\n<tool_response>\n12\n"));
  const Json missing = {{"type", "item_reference"}, {"id", call["id"].get<std::string>() + "9"}};
  EXPECT_EQ(Ask({{"conversation", "none"}, {"input", {missing}}})[0]["error"]["code"], "item_not_found");
}

}  // namespace
}  // namespace ringside
