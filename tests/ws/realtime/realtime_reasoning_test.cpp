// Reasoning over Realtime, whose API has no events for it: only the answer is sent, and the tokens are counted.
#include "tests/ws/realtime/realtime_fixture.h"

namespace ringside {
namespace {

using ::testing::Each;
using ::testing::HasSubstr;
using ::testing::Not;

class RealtimeReasoning : public RealtimeFixture {
 protected:
  RealtimeReasoning() : RealtimeFixture("qwen3") {}
  std::vector<Json> Answered(Client& client, std::string_view sampled) {
    client.Say("Hi");
    client.Send(kCreate);
    engine.Start(engine.count() - 1);
    engine.Sample(engine.count() - 1, sampled);
    engine.End(engine.count() - 1);
    return client.Events();
  }
};

TEST_F(RealtimeReasoning, SendsOnlyTheAnswer) {
  Client client = Open();
  const std::vector<Json> events = Answered(client, "<think>\nHm\n</think>\n\nYo");
  EXPECT_THAT(Types(events), Each(Not(HasSubstr("reasoning"))));
  for (const Json& event : events) {
    EXPECT_EQ(event.value("output_index", 0), 0) << event;
    EXPECT_EQ(event.dump().find("Hm"), std::string::npos) << event;
  }
  const Json response = events.back()["response"];
  ASSERT_EQ(response["output"].size(), 1U) << response;
  EXPECT_EQ(response["output"][0]["content"][0]["text"], "Yo");
  EXPECT_GT(response["usage"]["output_token_details"]["reasoning_tokens"], 2);
}

TEST_F(RealtimeReasoning, CallAfterReasoningIsTheFirstItem) {
  Client client = Open();
  client.Send({{"type", "session.update"}, {"session", {{"tools", {{{"type", "function"}, {"name", "f"}}}}}}});
  client.Events();
  const auto events =
      Answered(client, "<think>\nHm\n</think>\n\n<tool_call>\n{\"name\": \"f\", \"arguments\": {}}\n</tool_call>");
  EXPECT_THAT(Types(events), ::testing::Contains("response.function_call_arguments.done"));
  for (const Json& event : events) {
    EXPECT_EQ(event.value("output_index", 0), 0) << event;
  }
}

TEST_F(RealtimeReasoning, ReasoningIsSetPerSessionOrResponse) {
  Client client = Open();
  client.Send({{"type", "session.update"}, {"session", {{"reasoning", {{"effort", "none"}}}}}});
  EXPECT_EQ(client.Event("session.updated")["session"]["reasoning"], Json({{"effort", "none"}}));
  client.Say("Hi");
  client.Send(kCreate);
  EXPECT_TRUE(Prompt().ends_with("<think>\n\n</think>\n\n")) << Prompt();
  engine.AnswerLast("Yo");
  client.Events();
  client.Send(
      {{"type", "response.create"}, {"response", {{"conversation", "none"}, {"reasoning", {{"enabled", true}}}}}});
  EXPECT_FALSE(Prompt().ends_with("<think>\n\n</think>\n\n")) << Prompt();
  client.Events();
  client.Send({{"type", "session.update"}, {"session", {{"reasoning", {{"effort", "huge"}}}}}});
  EXPECT_EQ(client.Event("session.updated")["session"]["ringside"]["ignored"], Json::array({"reasoning.effort"}));
}

}  // namespace
}  // namespace ringside
