// Reasoning in the Responses protocol: its events live and replayed, its items, and its return in requests.
#include "tests/ws/openai/routes_fixture.h"
#include "ws/content/returned_reasoning.h"

namespace ringside {
namespace {

using ::testing::ElementsAre;

class ResponsesReasoning : public RoutesTest {
 protected:
  static constexpr const char* kAnswer = "<think>\nHm\n</think>\n\nYo";
  ResponsesReasoning() : RoutesTest("qwen3") {}
  void Sample(std::string_view sampled, FinishReason reason = FinishReason::kStop) {
    const size_t turn = engine.count() - 1;
    engine.Start(turn);
    engine.Sample(turn, sampled);
    engine.End(turn, reason);
  }
  /// Type, output_index and item type of each event.
  static std::vector<std::string> Outline(const std::vector<Json>& events) {
    std::vector<std::string> lines;
    for (const Json& event : events) {
      std::string line = event["type"].get<std::string>().substr(std::string_view("response.").size());
      if (event.contains("output_index")) line += " " + event["output_index"].dump();
      if (event.contains("item")) line += " " + event["item"]["type"].get<std::string>();
      if (lines.empty() || lines.back() != line) lines.push_back(std::move(line));
    }
    return lines;
  }
};

TEST_F(ResponsesReasoning, ReasoningItemComesFirst) {
  client.Send(Create());
  Sample(kAnswer);
  const std::vector<Json> events = client.Frames();
  EXPECT_THAT(Outline(events),
              ElementsAre("created", "in_progress", "output_item.added 0 reasoning", "content_part.added 0",
                          "reasoning_text.delta 0", "reasoning_text.done 0", "content_part.done 0",
                          "output_item.done 0 reasoning", "output_item.added 1 message", "content_part.added 1",
                          "output_text.delta 1", "output_text.done 1", "content_part.done 1",
                          "output_item.done 1 message", "completed"));
  for (size_t i = 0; i < events.size(); ++i) EXPECT_EQ(events[i]["sequence_number"], i);
  const Json &added = events[2]["item"], &part = events[3];
  EXPECT_EQ(added["status"], "in_progress");
  EXPECT_TRUE(added["id"].get<std::string>().starts_with("rs_"));
  EXPECT_EQ(added["summary"], Json::array());
  EXPECT_EQ(part["item_id"], added["id"]);
  EXPECT_EQ(part["part"], Json({{"type", "reasoning_text"}, {"text", ""}}));
  EXPECT_EQ(events[6]["text"], "Hm");
  const Json response = events.back()["response"], item = response["output"][0];
  EXPECT_EQ(item, events[8]["item"]);
  EXPECT_EQ(item["status"], "completed");
  EXPECT_EQ(item["content"], Json({{{"type", "reasoning_text"}, {"text", "Hm"}}}));
  EXPECT_EQ(DecodeReasoning(item["encrypted_content"].get<std::string>()), "Hm");
  EXPECT_EQ(response["output"][1]["content"][0]["text"], "Yo");
  EXPECT_GT(response["usage"]["output_tokens_details"]["reasoning_tokens"], 2);
  EXPECT_TRUE(response["ringside"].contains("reasoning_ms"));
}

TEST_F(ResponsesReasoning, SummaryIsTheReasoningText) {
  client.Send(Create({{"reasoning", {{"summary", "auto"}, {"effort", nullptr}}}}));
  Sample(kAnswer);
  const std::vector<Json> events = client.Frames();
  const std::vector<std::string> outline = Outline(events);
  EXPECT_THAT(std::vector<std::string>(outline.begin() + 3, outline.begin() + 7),
              ElementsAre("reasoning_summary_part.added 0", "reasoning_summary_text.delta 0",
                          "reasoning_summary_text.done 0", "reasoning_summary_part.done 0"));
  EXPECT_EQ(events[4]["summary_index"], 0);
  const Json response = events.back()["response"];
  EXPECT_EQ(response["reasoning"], Json({{"summary", "auto"}, {"effort", nullptr}}));
  EXPECT_EQ(response["output"][0]["summary"], Json({{{"type", "summary_text"}, {"text", "Hm"}}}));
  EXPECT_FALSE(response["output"][0].contains("content"));
}

TEST_F(ResponsesReasoning, OtherFieldsDoNotRequestASummary) {
  client.Send(Create(
      {{"metadata", {{"reasoning", R"({"summary":"auto"})"}}}, {"instructions", R"("reasoning":{"summary":"auto"})"}}));
  Sample(kAnswer);
  EXPECT_EQ(client.Frames().back()["response"]["output"][0]["summary"], Json::array());
}

TEST_F(ResponsesReasoning, ReplayIsIdenticalFromEveryEvent) {
  for (const Json& fields : {Json::object(), Json{{"reasoning", {{"summary", "auto"}}}}}) {
    const std::string id = NewConversation();
    Json asked = Create(fields);
    asked["conversation"] = id;
    TestSocket live(table);
    live.Send(asked);
    Sample(kAnswer);
    const std::vector<Json> all = live.Frames();
    for (size_t after = 0; after + 1 < all.size(); ++after) {
      TestSocket again(table);
      again.Send({{"type", "ringside:session.resume"}, {"session", id}, {"after", after}});
      std::vector<Json> missed = again.Frames();
      missed.erase(missed.begin());
      EXPECT_EQ(missed, std::vector<Json>(all.begin() + static_cast<ptrdiff_t>(after) + 1, all.end())) << after;
    }
  }
}

TEST_F(ResponsesReasoning, SnapshotHasReasoning) {
  const std::string id = NewConversation();
  client.Send(Create({{"conversation", id}}));
  engine.Start(0);
  engine.Sample(0, "<think>\nHm");
  TestSocket late(table);
  late.Send({{"type", "ringside:session.resume"}, {"session", id}});
  const std::vector<Json> frames = late.Frames();
  ASSERT_EQ(frames.size(), 2U);
  EXPECT_EQ(frames[1]["type"], "ringside:session.snapshot");
  EXPECT_EQ(frames[1]["reasoning"], "Hm");
  EXPECT_EQ(frames[1]["text"], "");
  engine.Sample(0, "\n</think>\n\nYo");
  engine.End(0);
  EXPECT_EQ(late.Frames().front()["ringside"]["seq"], frames[1]["next_seq"]);
}

TEST_F(ResponsesReasoning, CallMayFollowReasoningWithoutAMessage) {
  client.Send(Create({{"tools", {{{"type", "function"}, {"name", "f"}, {"parameters", nullptr}}}}}));
  Sample("<think>\nHm\n</think>\n\n<tool_call>\n{\"name\": \"f\", \"arguments\": {}}\n</tool_call>");
  const std::vector<Json> events = client.Frames();
  const std::vector<std::string> outline = Outline(events);
  EXPECT_THAT(outline, ::testing::Contains("output_item.added 1 function_call"));
  EXPECT_THAT(outline, ::testing::Contains("function_call_arguments.done 1"));
  const Json output = events.back()["response"]["output"];
  ASSERT_EQ(output.size(), 2U) << output;
  EXPECT_EQ(output[0]["type"], "reasoning");
  EXPECT_EQ(output[1]["type"], "function_call");
}

TEST_F(ResponsesReasoning, AnswerTruncatedInReasoningHasOnlyThatItem) {
  const std::string id = NewConversation();
  client.Send(Create({{"conversation", id}}));
  Sample("<think>\nHm", FinishReason::kLength);
  const std::vector<Json> events = client.Frames();
  EXPECT_EQ(events.back()["type"], "response.incomplete");
  const Json output = events.back()["response"]["output"];
  ASSERT_EQ(output.size(), 1U) << output;
  EXPECT_EQ(output[0]["type"], "reasoning");
  EXPECT_EQ(output[0]["status"], "incomplete");
  const Json items = Ok(Call("GET", "/v1/conversations/" + id + "/items?order=asc"))["data"];
  ASSERT_EQ(items.size(), 2U) << items;
  EXPECT_EQ(items[1]["type"], "reasoning");
  EXPECT_EQ(items[1]["status"], "incomplete");
  EXPECT_EQ(items[1]["id"], output[0]["id"]);
}

TEST_F(ResponsesReasoning, ReasoningIsAConversationItem) {
  const std::string id = NewConversation(), items = "/v1/conversations/" + id + "/items";
  client.Send(Create({{"conversation", id}}));
  Sample(kAnswer);
  const Json all = Ok(Call("GET", items + "?order=asc"))["data"];
  ASSERT_EQ(all.size(), 3U) << all;
  EXPECT_EQ(all[1]["type"], "reasoning");
  EXPECT_EQ(all[1]["content"][0]["text"], "Hm");
  EXPECT_EQ(all[2]["content"][0]["text"], "Yo");
  const std::string reasoning = all[1]["id"];
  EXPECT_EQ(Ok(Call("GET", items + "/" + reasoning)), all[1]);
  EXPECT_EQ(Ok(Call("GET", items + "?order=asc&after=" + reasoning))["data"], Json::array({all[2]}));
  // It is deleted with its answer.
  Ok(Call("DELETE", items + "/" + reasoning));
  EXPECT_EQ(Ok(Call("GET", items))["data"].size(), 1U);
}

TEST_F(ResponsesReasoning, AcceptsReasoningFromTheClient) {
  const Json bare = {{"type", "reasoning"}, {"id", "rs_1"}, {"summary", Json::array()}};
  Json text = bare, opaque = bare, summary = bare, foreign = bare;
  text["content"] = {{{"type", "reasoning_text"}, {"text", "Hm"}}};
  opaque["encrypted_content"] = EncodeReasoning("Hm");
  summary["summary"] = {{{"type", "summary_text"}, {"text", "Hm"}}};
  summary["encrypted_content"] = "another server's";
  foreign["encrypted_content"] = "another server's";
  for (const Json& item : {text, opaque, summary, foreign}) {
    const Json items = {Message("user", "Hi"), item, Message("assistant", "Yo")};
    const std::string id = Ok(Call("POST", "/v1/conversations", {{"items", items}}))["id"];
    const Json listed = Ok(Call("GET", "/v1/conversations/" + id + "/items?order=asc"))["data"];
    if (item == foreign) {
      EXPECT_EQ(listed.size(), 2U) << listed;
      continue;
    }
    ASSERT_EQ(listed.size(), 3U) << listed;
    EXPECT_EQ(listed[1]["content"][0]["text"], "Hm");
    EXPECT_EQ(listed[2]["content"][0]["text"], "Yo");
  }
}

TEST_F(ResponsesReasoning, PassesEffortAndBudgetToTheTurn) {
  client.Send(Create({{"reasoning", {{"effort", "none"}}}}));
  EXPECT_TRUE(tokenizer.Decode(engine.last().tokens).ends_with("<think>\n\n</think>\n\n"));
  engine.AnswerLast("Yo");
  const Json response = client.Frames().back()["response"];
  EXPECT_EQ(response["reasoning"]["effort"], "none");
  EXPECT_FALSE(response["ringside"].contains("ignored")) << response;
  client.Send(Create({{"thinking_budget", 5}}));
  EXPECT_EQ(engine.last().reasoning_budget, 5);
}

}  // namespace
}  // namespace ringside
