// The Realtime protocol's text subset: a session's items and responses.
#include "ws/realtime/realtime.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <nlohmann/json.hpp>
#include <thread>

#include "base/refusals/server_overload.h"
#include "tests/ws/realtime/realtime_fixture.h"

namespace ringside {
namespace {

using Json = nlohmann::ordered_json;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;

class RealtimeTest : public RealtimeFixture {};

TEST_F(RealtimeTest, SessionEventIsFirstAndItsConversationIsInTheTable) {
  Client opened(table);
  const Json session = opened.Event("session.created")["session"];
  EXPECT_EQ(session["type"], "realtime");
  EXPECT_EQ(session["object"], "realtime.session");
  EXPECT_EQ(session["model"], "tiny");
  EXPECT_EQ(session["output_modalities"], Json::array({"text"}));
  EXPECT_EQ(session["max_output_tokens"], "inf");
  EXPECT_EQ(session["instructions"], "");
  EXPECT_EQ(session["tools"], Json::array());
  EXPECT_EQ(session["truncation"], "auto");
  EXPECT_TRUE(session["id"].get<std::string>().starts_with("sess_"));
  conversation_ = session["ringside"]["conversation"];
  opened.Say("Hi");
  EXPECT_THAT(Texts(), ElementsAre("Hi"));
  opened.Close();
  Client again(table, {{"conversation", conversation_}, {"model", "tiny"}});
  EXPECT_EQ(again.Event("session.created")["session"]["ringside"]["conversation"], conversation_);
}

TEST_F(RealtimeTest, EmptyConversationEndsWithItsSocket) {
  Client silent = Open();
  EXPECT_EQ(table.conversations(), 1);
  silent.Close();
  EXPECT_EQ(table.conversations(), 0);
}

TEST_F(RealtimeTest, RefusesUnsupportedUpgrades) {
  const SocketRoute route = RealtimeRoute(table);
  HttpRequest request;
  request.headers = {{"openai-beta", "realtime=v1"}};
  EXPECT_EQ(route.admit(request).reason(), "unsupported_value");
  request.headers = {{"sec-websocket-protocol", "realtime, openai-insecure-api-key.x, openai-beta.realtime-v1"}};
  EXPECT_EQ(route.admit(request).reason(), "unsupported_value");
  request.headers = {{"sec-websocket-protocol", "realtime, openai-insecure-api-key.x"}};
  EXPECT_TRUE(route.admit(request).ok());
  request.query = {{"model", "gpt-realtime"}};
  EXPECT_EQ(route.admit(request).reason(), "model_not_found");
  request.query = {{"call_id", "x"}};
  EXPECT_EQ(route.admit(request).param(), "call_id");
  request.query = {{"conversation", "conv_none"}};
  EXPECT_EQ(route.admit(request).code(), StatusCode::kNotFound);
}

TEST_F(RealtimeTest, ResponseEventsAreInOrder) {
  Client client = Open();
  const Json said = client.Say("Hi");
  client.Send({{"type", "response.create"}, {"response", {{"metadata", {{"k", "v"}}}, {"max_output_tokens", 20}}}});
  EXPECT_TRUE(client.busy());
  engine.Answer(0, "Yo");
  const std::vector<Json> events = client.Events();
  ASSERT_THAT(Types(events),
              ElementsAre("response.created", "response.output_item.added", "conversation.item.added",
                          "response.content_part.added", "response.output_text.delta", "response.output_text.delta",
                          "response.output_text.done", "response.content_part.done", "response.output_item.done",
                          "conversation.item.done", "response.done"));
  EXPECT_FALSE(client.busy());
  EXPECT_EQ(events[0]["response"]["status"], "in_progress");
  EXPECT_EQ(events[0]["response"]["output"], Json::array());
  EXPECT_EQ(events[2]["previous_item_id"], said["id"]);
  EXPECT_EQ(events[2]["item"]["content"], Json::array());
  EXPECT_EQ(events[3]["part"], Json({{"type", "text"}, {"text", ""}}));
  EXPECT_EQ(events[4]["delta"], "Y");
  EXPECT_EQ(events[6]["text"], "Yo");
  EXPECT_EQ(events[7]["part"]["text"], "Yo");
  const Json response = events.back()["response"];
  EXPECT_EQ(response["object"], "realtime.response");
  EXPECT_EQ(response["status"], "completed");
  EXPECT_EQ(response["conversation_id"], conversation_);
  EXPECT_EQ(response["metadata"]["k"], "v");
  EXPECT_EQ(response["max_output_tokens"], 20);
  EXPECT_EQ(engine.last().max_tokens, 20);
  ASSERT_THAT(response["output"], SizeIs(1));
  EXPECT_EQ(response["output"][0], events[8]["item"]);
  EXPECT_EQ(response["output"][0], events[9]["item"]);
  EXPECT_EQ(response["output"][0]["content"], Json::array({{{"type", "output_text"}, {"text", "Yo"}}}));
  const Json usage = response["usage"];
  EXPECT_EQ(usage["total_tokens"], usage["input_tokens"].get<int64_t>() + usage["output_tokens"].get<int64_t>());
  EXPECT_EQ(usage["input_token_details"]["cached_tokens"], 0);
  EXPECT_EQ(usage["output_token_details"]["text_tokens"], usage["output_tokens"]);
  for (size_t i = 4; i < 7; ++i) {
    EXPECT_EQ(events[i]["response_id"], response["id"]);
    EXPECT_EQ(events[i]["item_id"], response["output"][0]["id"]);
    EXPECT_EQ(events[i]["content_index"], 0);
  }
  EXPECT_THAT(Texts(), ElementsAre("Hi", "Yo"));
}

TEST_F(RealtimeTest, ItemsAreCreatedRetrievedAndDeleted) {
  Client client = Open();
  const Json first = client.Say("One"), second = client.Say("Two", {{"id", "mine"}, {"role", "system"}});
  EXPECT_EQ(first["object"], "realtime.item");
  EXPECT_EQ(first["status"], "completed");
  EXPECT_EQ(second["id"], "mine");
  client.Send({{"type", "conversation.item.retrieve"}, {"item_id", "mine"}});
  EXPECT_EQ(client.Event("conversation.item.retrieved")["item"], second);
  Json create = {{"type", "conversation.item.create"},
                 {"previous_item_id", first["id"]},
                 {"item", {{"type", "message"}, {"role", "user"}, {"content", Json::array({Text("x")})}}}};
  client.Send(create);
  EXPECT_EQ(client.Events().front()["previous_item_id"], first["id"]);
  create["previous_item_id"] = "root";
  create["item"]["content"] = Json::array({Text("zero")});
  client.Send(create);
  EXPECT_EQ(client.Events().front()["previous_item_id"], nullptr);
  create["previous_item_id"] = "mine";
  create["item"]["content"] = Json::array({Text("y")});
  client.Send(create);
  EXPECT_EQ(client.Events().front()["previous_item_id"], "mine");
  EXPECT_THAT(Texts(), ElementsAre("zero", "One", "x", "Two", "y"));
  create["previous_item_id"] = "nowhere";
  client.Send(create);
  client.ExpectError("item_not_found", "previous_item_id");
  for (const std::string& id : {Items().front().id, Items()[2].id, std::string("mine"), Items().back().id}) {
    client.Send({{"type", "conversation.item.delete"}, {"item_id", id}});
    EXPECT_EQ(client.Event("conversation.item.deleted")["item_id"], id);
  }
  EXPECT_THAT(Texts(), ElementsAre("One"));
  EXPECT_EQ(client.Say("Two", {{"id", "mine"}})["id"], "mine") << "the id is free again";
  for (const char* verb : {"retrieve", "delete"}) {
    client.Send({{"type", std::string("conversation.item.") + verb}, {"item_id", "none"}});
    client.ExpectError("item_not_found", "item_id");
    client.Send({{"type", std::string("conversation.item.") + verb}});
    client.ExpectError("missing_required_parameter", "item_id");
  }
}

TEST_F(RealtimeTest, RefusesItemsOtherThanText) {
  Client client = Open();
  const auto create = [&](const Json& item) { client.Send({{"type", "conversation.item.create"}, {"item", item}}); };
  create({{"type", "mcp_call"}, {"name", "x"}});
  client.ExpectError("unsupported_value", "item.type");
  create({{"type", "function_call_output"}, {"output", "y"}});
  client.ExpectError("missing_required_parameter", "item.call_id");
  create({{"type", "message"}, {"role", "user"}, {"content", Json::array({{{"type", "input_audio"}, {"audio", ""}}})}});
  client.ExpectError("unsupported_value", "item.content[0].type");
  create({{"type", "message"}, {"role", "user"}});
  client.ExpectError("missing_required_parameter", "item.content");
  client.Send({{"type", "conversation.item.create"}});
  client.ExpectError("missing_required_parameter", "item");
  client.Say("Hi", {{"id", "mine"}});
  create({{"id", "mine"}, {"type", "message"}, {"role", "user"}, {"content", "x"}});
  client.ExpectError("invalid_value", "item.id");
  create({{"id", std::string(65, 'x')}, {"type", "message"}, {"role", "user"}, {"content", "x"}});
  client.ExpectError("string_above_max_length", "item.id");
  create({{"type", "message"}, {"role", "user"}, {"content", Json::array({Text("one"), Text("two")})}});
  EXPECT_THAT(Texts(), ElementsAre("Hi", "one\ntwo")) << "text parts are joined";
}

TEST_F(RealtimeTest, NextTurnMayStartOnTheEndEvent) {
  Client client = Open();
  client.Say("Hi");
  client.Send(kCreate);
  engine.Start(0);
  engine.Say(0, "Yo");
  client.Events();
  std::vector<std::string> heard;
  std::jthread asks;
  *client.woken = [&] {
    if (asks.joinable()) return;
    for (const Json& event : client.Events()) heard.push_back(event["type"]);
    if (heard.back() != "response.done") return;
    asks = std::jthread([&] {
      const Json more = {{"type", "message"}, {"role", "user"}, {"content", Json::array({Text("More?")})}};
      client.Send({{"type", "conversation.item.create"}, {"item", more}});
      client.Send(kCreate);
    });
    // The thread that reports the end is blocked here: the turn must be over by now.
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  };
  engine.End(0);
  ASSERT_TRUE(asks.joinable()) << Json(heard);
  asks.join();
  *client.woken = [] {};
  const std::vector<Json> told = client.Events();
  ASSERT_THAT(Types(told), ::testing::Not(::testing::Contains("error"))) << Json(told);
  engine.Start(1);
  engine.Say(1, "Again");
  engine.End(1);
  EXPECT_EQ(Texts(), (std::vector<std::string>{"Hi", "Yo", "More?", "Again"}));
}

TEST_F(RealtimeTest, AllowsOneConversationResponseAtATime) {
  Client client = Open();
  client.Say("Hi");
  client.Send(kCreate);
  engine.Start(0);
  client.Events();
  client.Send(kCreate);
  client.ExpectError("conversation_already_has_active_response", nullptr);
  engine.Say(0, "Yo");
  engine.End(0);
  EXPECT_EQ(client.Events().back()["type"], "response.done");
  client.Send(kCreate);
  client.ExpectError("invalid_value", "input");  // there is no message to answer
}

TEST_F(RealtimeTest, ConversationChangesWaitForTheResponse) {
  Client client = Open();
  client.Say("Hi");
  client.Send(kCreate);
  engine.Start(0);
  client.Events();
  client.Send({{"type", "conversation.item.create"},
               {"item", {{"type", "message"}, {"role", "user"}, {"content", Json::array({Text("And?")})}}}});
  client.Send({{"type", "session.update"}, {"session", {{"instructions", "Be brief."}}}});
  EXPECT_EQ(client.Event("session.updated")["type"], "session.updated") << "this waits for nothing";
  engine.Say(0, "Yo");
  engine.End(0);
  table.Flush();
  std::vector<Json> events;
  while (Texts().size() < 3) std::this_thread::yield();
  while (events.empty() || events.back()["type"] != "conversation.item.done" ||
         events.back()["item"]["role"] != "user") {
    for (Json& event : client.Events()) events.push_back(std::move(event));
  }
  EXPECT_THAT(Texts(), ElementsAre("Hi", "Yo", "And?"));
  EXPECT_EQ(events.back()["previous_item_id"], Items().at(1).id);
  client.Send(kCreate);
  EXPECT_NE(Prompt().find("Yo<|im_end|>\n<|im_start|>user\nAnd?"), std::string::npos);
  engine.AnswerLast("So");
}

TEST_F(RealtimeTest, CancelsAResponse) {
  Client client = Open();
  client.Send({{"type", "response.cancel"}, {"event_id", "e1"}});
  client.ExpectError("response_cancel_not_active", "response_id", "e1");
  client.Say("Hi");
  client.Send(kCreate);
  engine.Start(0);
  engine.Say(0, "Y");
  const std::string id = client.Events().front()["response"]["id"];
  client.Send({{"type", "response.cancel"}, {"response_id", "resp_none"}});
  client.ExpectError("response_cancel_not_active", "response_id");
  client.Send({{"type", "response.cancel"}});
  client.Send({{"type", "response.cancel"}, {"response_id", id}});
  EXPECT_THAT(engine.cancelled(), SizeIs(2));
  engine.End(0, FinishReason::kCancelled);
  const Json response = client.Events().back()["response"];
  EXPECT_EQ(response["status"], "cancelled");
  EXPECT_EQ(response["status_details"], Json({{"type", "cancelled"}, {"reason", "client_cancelled"}}));
  EXPECT_EQ(response["output"][0]["content"][0]["text"], "Y");
  client.Say("More");
  client.Send(kCreate);
  engine.Answer(1, "Yo", FinishReason::kLength);
  EXPECT_EQ(client.Events().back()["response"]["status_details"]["reason"], "max_output_tokens");
  client.Say("More");
  client.Send(kCreate);
  engine.Answer(2, "Yo", FinishReason::kRepetition);
  EXPECT_EQ(client.Events().back()["response"]["status_details"]["reason"], "max_output_tokens");
}

TEST_F(RealtimeTest, FailureReportsItsReason) {
  Client client = Open();
  client.Say("Hi");
  client.Send(kCreate);
  engine.End(0, FinishReason::kError, Unavailable("The device is gone."));
  const std::vector<Json> events = client.Events();
  EXPECT_THAT(Types(events), ElementsAre("response.created", "response.done"));
  EXPECT_EQ(events.back()["response"]["status"], "incomplete");
  EXPECT_EQ(events.back()["response"]["status_details"]["reason"], "interrupted");
  EXPECT_EQ(events.back()["response"]["status_details"]["error"]["code"], "unavailable");
  engine.Refuse(Overloaded("Too many wait."));
  client.Send({{"type", "response.create"}, {"event_id", "e1"}});
  client.ExpectError("rate_limit_exceeded", nullptr, "e1");
  engine.Refuse(Status::Ok());
  engine.Overload(ServerOverload{.wait_s = 4, .retry_after_s = 7}.ToStatus());
  client.Send({{"type", "response.create"}, {"event_id", "e2"}});
  client.ExpectError("server_overloaded", nullptr, "e2");
  engine.Overload(Status::Ok());
  client.Send(kCreate);
  engine.AnswerLast("Yo");
  EXPECT_EQ(client.Events().back()["response"]["status"], "completed");
}

TEST_F(RealtimeTest, OutOfBandResponseLeavesTheConversationUnchanged) {
  Client client = Open();
  client.Say("My cat is called Tom.", {{"id", "cat"}});
  client.Say("And you?");
  client.Send(kCreate);
  const Json beside = {{"conversation", "none"},
                       {"instructions", "Be kind."},
                       {"input", Json::array({{{"type", "item_reference"}, {"id", "cat"}},
                                              {{"type", "message"}, {"role", "user"}, {"content", "Its name?"}}})}};
  client.Send({{"type", "response.create"}, {"response", beside}});
  EXPECT_EQ(Prompt(),
            "<|im_start|>system\nBe kind.<|im_end|>\n<|im_start|>user\nMy cat is called Tom.<|im_end|>\n"
            "<|im_start|>user\nIts name?<|im_end|>\n<|im_start|>assistant\n");
  client.Events();
  engine.Answer(1, "Tom");
  const std::vector<Json> events = client.Events();
  EXPECT_THAT(Types(events),
              ElementsAre("response.output_item.added", "response.content_part.added", "response.output_text.delta",
                          "response.output_text.delta", "response.output_text.delta", "response.output_text.done",
                          "response.content_part.done", "response.output_item.done", "response.done"));
  EXPECT_TRUE(events.back()["response"]["conversation_id"].is_null());
  EXPECT_EQ(events.back()["response"]["output"][0]["content"][0]["text"], "Tom");
  engine.Answer(0, "Yo");
  client.Events();
  EXPECT_THAT(Texts(), ElementsAre("My cat is called Tom.", "And you?", "Yo"));
  // Without its own input it gets the conversation.
  client.Send({{"type", "response.create"}, {"response", {{"conversation", "none"}}}});
  EXPECT_NE(Prompt().find("And you?<|im_end|>\n<|im_start|>assistant\nYo"), std::string::npos);
  client.Events();
  client.Close();
  while (engine.cancelled().empty()) std::this_thread::yield();  // no client can receive it any more
}

TEST_F(RealtimeTest, RefusesUnsupportedResponseFields) {
  Client client = Open();
  client.Say("Hi");
  const auto fails = [&](const Json& response, const std::string& code, const std::string& param) {
    client.Send({{"type", "response.create"}, {"response", response}});
    client.ExpectError(code, param);
  };
  fails({{"conversation", "conv_other"}}, "unsupported_value", "response.conversation");
  fails({{"input", Json::array()}}, "unsupported_value", "response.input");
  fails({{"conversation", "none"}, {"input", Json::array({{{"type", "item_reference"}, {"id", "none"}}})}},
        "item_not_found", "response.input");
  fails({{"conversation", "none"}, {"input", Json::array({{{"type", "item_reference"}}})}},
        "missing_required_parameter", "response.input[0].id");
  fails({{"conversation", "none"}, {"input", Json::array({{{"type", "function_call"}}})}}, "missing_required_parameter",
        "response.input[0].arguments");
  fails({{"output_modalities", {"audio"}}}, "unsupported_value", "response.output_modalities");
  fails({{"prompt", {{"id", "pmpt_1"}}}}, "unsupported_value", "response.prompt");
  fails({{"tool_choice", "required"}}, "invalid_value", "tool_choice");
  fails({{"metadata", 5}}, "invalid_type", "response.metadata");
  EXPECT_EQ(engine.count(), 0U);
}

TEST_F(RealtimeTest, AnswerContinuesWithoutItsSocket) {
  Client client = Open();
  client.Say("Hi");
  client.Send(kCreate);
  engine.Start(0);
  client.Close();
  EXPECT_THAT(engine.cancelled(), IsEmpty());
  engine.Say(0, "Yo");
  engine.End(0);
  EXPECT_THAT(Texts(), ElementsAre("Hi", "Yo"));
}

TEST_F(RealtimeTest, SlowReaderGetsOneMergedDelta) {
  Client client = Open();
  client.Say("Hi");
  client.Send(kCreate);
  engine.Start(0);
  const std::string piece(100'000, 'x');
  for (int i = 0; i < 20; ++i) engine.SayAtOnce(0, piece);
  std::string text;
  size_t deltas = 0;
  for (const Json& event : client.Events()) {
    if (event["type"] != "response.output_text.delta") continue;
    text += event["delta"];
    ++deltas;
  }
  EXPECT_EQ(text.size(), 20 * piece.size());
  EXPECT_LT(deltas, 20U);
  engine.End(0);
}

}  // namespace
}  // namespace ringside
