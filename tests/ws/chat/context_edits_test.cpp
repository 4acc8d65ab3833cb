// `context_management` of Anthropic's API: edits of a history, their reports, and the edited timeline of the next
// request.
#include <future>

#include "tests/ws/chat/chat_fixture.h"

namespace ringside {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

constexpr const char* kPlaceholder = "[Old tool result cleared]";
const std::string kLong(300, 'r');

SessionTableOptions WideOptions() {
  SessionTableOptions options = TableFixture::Options();
  options.session_len = 9000;
  options.memory_len = 4000;
  options.pinned_max = 1024;
  return options;
}

class ContextEdits : public ChatTest {
 protected:
  explicit ContextEdits(const std::string& family = "chatml") : ChatTest(WideOptions(), family) {}

  /// A question, then `calls` calls of `name`, each with its result.
  static Json History(int calls, const std::string& name = "look") {
    Json messages = Json::array({User("Find it " + kLong)});
    for (int i = 0; i < calls; ++i) {
      const std::string id = "toolu_" + std::to_string(i);
      const Json call = {{"type", "tool_use"}, {"id", id}, {"name", name}, {"input", {{"q", "query " + id}}}};
      const Json result = {{"type", "tool_result"}, {"tool_use_id", id}, {"content", id + kLong}};
      messages.push_back({{"role", "assistant"}, {"content", Json::array({call})}});
      messages.push_back({{"role", "user"}, {"content", Json::array({result})}});
    }
    return messages;
  }
  static Json Clear(Json fields = Json::object()) {
    Json edit = {{"type", "clear_tool_uses_20250919"},
                 {"trigger", {{"type", "input_tokens"}, {"value", 500}}},
                 {"keep", {{"type", "tool_uses"}, {"value", 1}}}};
    edit.update(fields);
    return edit;
  }
  HttpResponse Ask(const Json& messages, const Json& edits, Json fields = Json::object()) {
    Json body = {{"model", "tiny"},
                 {"max_tokens", 9},
                 {"messages", messages},
                 {"context_management", {{"edits", edits.is_array() ? edits : Json::array({edits})}}}};
    body.update(fields);
    return Post("/v1/messages", body);
  }
  /// Bytes of special tokens beyond one for each.
  static size_t Marks(const std::string& prompt) {
    size_t bytes = 0;
    for (const std::string mark : {"<|im_start|>", "<|im_end|>"}) {
      for (size_t at = prompt.find(mark); at != std::string::npos; at = prompt.find(mark, at + 1))
        bytes += mark.size() - 1;
    }
    return bytes;
  }
  std::string Prompt() { return tokenizer.Decode(engine.last().tokens); }
  Json Applied(const HttpResponse& answer) {
    engine.AnswerLast("Yo");
    return Whole(answer)["context_management"]["applied_edits"];
  }
};

TEST_F(ContextEdits, OldResultsAreClearedAndCounted) {
  const HttpResponse answer = Ask(History(3), {Clear()});
  ASSERT_EQ(answer.status, 200) << answer.body;
  EXPECT_THAT(Prompt(), Not(HasSubstr("toolu_0" + kLong)));
  EXPECT_THAT(Prompt(), Not(HasSubstr("toolu_1" + kLong)));
  EXPECT_THAT(Prompt(), HasSubstr("toolu_2" + kLong));
  EXPECT_THAT(Prompt(), HasSubstr("query toolu_0"));
  const auto each = static_cast<int64_t>(7 + kLong.size() - std::string(kPlaceholder).size());
  EXPECT_EQ(
      Applied(answer),
      Json({{{"type", "clear_tool_uses_20250919"}, {"cleared_tool_uses", 2}, {"cleared_input_tokens", 2 * each}}}));
}

TEST_F(ContextEdits, StreamReportsThemAtItsEnd) {
  ChatStream stream(Ask(History(2), {Clear()}, {{"stream", true}}));
  engine.AnswerLast("Yo");
  for (const Json& event : stream.Events()) {
    EXPECT_EQ(event.contains("context_management"), event["type"] == "message_delta") << event;
    if (event["type"] != "message_delta") continue;
    EXPECT_EQ(event["context_management"]["applied_edits"][0]["cleared_tool_uses"], 1);
  }
}

TEST_F(ContextEdits, ALongerHistoryGoesOnWithTheEditedTimeline) {
  Ask(History(3), {Clear()});
  engine.AnswerLast("");
  const std::vector<TokenId> before = engine.last().tokens;
  Json longer = History(3);
  longer.push_back(Assistant(""));
  longer.push_back(User("And?"));
  Ask(longer, {Clear()});
  const std::vector<TurnRequest> requests = engine.requests();
  EXPECT_EQ(requests[0].timeline, requests[1].timeline);
  ASSERT_GT(requests[1].tokens.size(), before.size());
  EXPECT_TRUE(std::equal(before.begin(), before.end(), requests[1].tokens.begin()));
}

TEST_F(ContextEdits, WhatPrecedesTheFirstClearedResultIsShared) {
  Ask(History(2), {Clear({{"trigger", {{"type", "tool_uses"}, {"value", 2}}}})});
  engine.AnswerLast("");
  Ask(History(3), {Clear({{"trigger", {{"type", "tool_uses"}, {"value", 2}}}})});
  const std::vector<TurnRequest> requests = engine.requests();
  const auto& [first, second] = std::pair(requests[0].tokens, requests[1].tokens);
  const auto same = std::ranges::mismatch(first, second).in1 - first.begin();
  EXPECT_THAT(tokenizer.Decode(std::vector(first.begin(), first.begin() + same)), HasSubstr("query toolu_0"));
  EXPECT_EQ(requests[1].forked_from, requests[0].timeline);
}

TEST_F(ContextEdits, TriggersKeepsAndExclusions) {
  const Json high = {{"trigger", {{"type", "input_tokens"}, {"value", 5000}}}};
  EXPECT_EQ(Applied(Ask(History(3), {Clear(high)})), Json::array());
  const Json uses = {{"trigger", {{"type", "tool_uses"}, {"value", 3}}}};
  EXPECT_EQ(Applied(Ask(History(3), {Clear(uses)})), Json::array());
  EXPECT_EQ(Applied(Ask(History(4), {Clear(uses)}))[0]["cleared_tool_uses"], 3);
  const Json least = {{"clear_at_least", {{"type", "input_tokens"}, {"value", 1000}}}};
  EXPECT_EQ(Applied(Ask(History(3), {Clear(least)})), Json::array());
  EXPECT_EQ(Applied(Ask(History(6), {Clear(least)}))[0]["cleared_tool_uses"], 5);
  EXPECT_EQ(Applied(Ask(History(3), {Clear({{"exclude_tools", Json::array({"look"})}})})), Json::array());
  EXPECT_EQ(Applied(Ask(History(1), Json::array())), Json::array());
}

TEST_F(ContextEdits, InputsAreClearedWhereThatIsAskedFor) {
  Ask(History(2), {Clear({{"clear_tool_inputs", true}})});
  EXPECT_THAT(Prompt(), Not(HasSubstr("query toolu_0")));
  EXPECT_THAT(Prompt(), HasSubstr("query toolu_1"));
  Ask(History(2), {Clear({{"clear_tool_inputs", Json::array({"other"})}})});
  EXPECT_THAT(Prompt(), HasSubstr("query toolu_0"));
  Ask(History(2), {Clear({{"clear_tool_inputs", Json::array({"look"})}})});
  EXPECT_THAT(Prompt(), Not(HasSubstr("query toolu_0")));
}

TEST_F(ContextEdits, TokensAreCountedBeforeAndAfter) {
  const Json body = {
      {"model", "tiny"}, {"messages", History(3)}, {"context_management", {{"edits", Json::array({Clear()})}}}};
  const Json counted = Json::parse(Post("/v1/messages/count_tokens", body).body);
  Json plain = body;
  plain.erase("context_management");
  const Json uncut = Json::parse(Post("/v1/messages/count_tokens", plain).body);
  EXPECT_EQ(counted["context_management"]["original_input_tokens"], uncut["input_tokens"]);
  EXPECT_FALSE(uncut.contains("context_management"));
  Ask(History(3), {Clear()});
  EXPECT_EQ(counted["input_tokens"], engine.last().tokens.size());
}

// Nothing but the edit makes it fit.
TEST_F(ContextEdits, AHistoryThatIsTooLongIsClearedWhateverItsTrigger) {
  const Json high = {{"trigger", {{"type", "input_tokens"}, {"value", 100000}}}, {"clear_tool_inputs", true}};
  EXPECT_EQ(Applied(Ask(History(22), {Clear(high)}))[0]["cleared_tool_uses"], 21);
}

TEST_F(ContextEdits, HostileValuesAreNamed) {
  const std::pair<Json, std::string> cases[] = {
      {Clear({{"trigger", 5}}), "edits[0].trigger"},
      {Clear({{"trigger", {{"type", "seconds"}, {"value", 5}}}}), "edits[0].trigger.type"},
      {Clear({{"trigger", {{"type", "input_tokens"}}}}), "edits[0].trigger.value"},
      {Clear({{"keep", {{"type", "tool_uses"}, {"value", -1}}}}), "edits[0].keep.value"},
      {Clear({{"keep", {{"type", "tool_uses"}, {"value", 1e18}}}}), "edits[0].keep.value"},
      {Clear({{"exclude_tools", "look"}}), "edits[0].exclude_tools"},
      {Clear({{"exclude_tools", Json::array({1})}}), "edits[0].exclude_tools[0]"},
      {Clear({{"exclude_tools", std::vector<std::string>(129, "x")}}), "edits[0].exclude_tools"},
      {Clear({{"clear_tool_inputs", 1}}), "edits[0].clear_tool_inputs"},
      {{{"type", "clear_thinking_20251015"}, {"keep", {{"type", "thinking_turns"}, {"value", 0}}}},
       "edits[0].keep.value"},
      {{{"type", "clear_thinking_20251015"}, {"keep", "none"}}, "edits[0].keep"},
      {"clear", "edits[0]"}};
  for (const auto& [edit, param] : cases) {
    const Json error = ErrorOf(Ask(History(1), {edit}), 400);
    EXPECT_THAT(error["message"].get<std::string>(), HasSubstr("context_management." + param)) << edit;
  }
  EXPECT_THAT(ErrorOf(Ask(History(1), {Clear(), Clear()}), 400)["message"].get<std::string>(),
              HasSubstr("edits[1].type"));
  ErrorOf(Ask(History(1), "all"), 400);
}

TEST_F(ContextEdits, UnknownEditsAreIgnoredAndReported) {
  const HttpResponse answer = Ask(History(1), {{{"type", "shrink_20300101"}}});
  engine.AnswerLast("Yo");
  const Json whole = Whole(answer);
  EXPECT_EQ(whole["ringside"]["ignored"], Json({"context_management.edits[0].shrink_20300101"}));
  EXPECT_EQ(whole["context_management"]["applied_edits"], Json::array());
}

class CompactEdits : public ContextEdits {
 protected:
  static Json Compact(Json fields = Json::object()) {
    Json edit = {{"type", "compact_20260112"}, {"trigger", {{"type", "input_tokens"}, {"value", 200}}}};
    edit.update(fields);
    return edit;
  }
  static Json Talk() { return {User("First " + kLong), Assistant("Fine"), User("Second")}; }
  /// Sends a request that waits for a side turn.
  HttpResponse Compacting(const Json& edit, Json fields = Json::object()) {
    const size_t before = engine.count();
    std::future<HttpResponse> answer = std::async(std::launch::async, [&] { return Ask(Talk(), {edit}, fields); });
    EXPECT_TRUE(Eventually([&] { return engine.count() > before; }));
    side = tokenizer.Decode(engine.last().tokens);
    engine.AnswerLast("They said hi.");
    return answer.get();
  }
  std::string side;  // the prompt of that turn
};

TEST_F(CompactEdits, ASummaryReplacesTheMessagesBeforeTheLastAnswer) {
  const HttpResponse waiting = Compacting(Compact({{"instructions", "Be short."}}));
  EXPECT_THAT(side, HasSubstr("Fine<|im_end|>\n<|im_start|>user\nBe short.<|im_end|>"));
  EXPECT_THAT(Prompt(), Not(HasSubstr(kLong)));
  engine.AnswerLast("Yo");
  const Json whole = Whole(waiting);
  ASSERT_EQ(whole["content"].size(), 2U) << whole;
  EXPECT_EQ(whole["content"][0]["type"], "compaction");
  EXPECT_EQ(whole["content"][0]["content"], "They said hi.");
  EXPECT_EQ(whole["content"][1]["text"], "Yo");
  EXPECT_EQ(whole["usage"]["iterations"][0]["type"], "compaction");
  EXPECT_EQ(whole["usage"]["iterations"][0]["input_tokens"].get<size_t>(), side.size() - Marks(side));
  // The block replaces all before it.
  const size_t turns = engine.count();
  Json longer = Talk();
  longer.push_back({{"role", "assistant"}, {"content", whole["content"]}});
  longer.push_back(User("Third"));
  Ask(longer, {Compact({{"trigger", {{"type", "input_tokens"}, {"value", 1000}}}})});
  ASSERT_EQ(engine.count(), turns + 1);
  EXPECT_EQ(engine.requests()[turns].timeline, engine.requests()[turns - 1].timeline);
}

TEST_F(CompactEdits, AStreamHasTheBlockFirst) {
  ChatStream stream(Compacting(Compact(), {{"stream", true}}));
  engine.AnswerLast("Yo");
  const std::vector<Json> events = stream.Events();
  EXPECT_EQ(events[1]["content_block"]["type"], "compaction");
  EXPECT_EQ(events[2]["delta"]["type"], "compaction_delta");
  EXPECT_EQ(events[2]["delta"]["content"], "They said hi.");
  EXPECT_EQ(events[3], Json({{"type", "content_block_stop"}, {"index", 0}}));
  EXPECT_EQ(events[4]["content_block"]["type"], "text");
  EXPECT_EQ(events[4]["index"], 1);
}

TEST_F(CompactEdits, APauseEndsBehindTheBlock) {
  for (const bool streamed : {false, true}) {
    const HttpResponse waiting = Compacting(Compact({{"pause_after_compaction", true}}), {{"stream", streamed}});
    EXPECT_EQ(engine.last().max_tokens, 0);
    engine.Start(engine.count() - 1);
    engine.End(engine.count() - 1);
    if (!streamed) {
      const Json whole = Whole(waiting);
      EXPECT_EQ(whole["stop_reason"], "compaction");
      EXPECT_EQ(whole["content"].size(), 1U);
      continue;
    }
    const std::vector<Json> events = ChatStream(waiting).Events();
    ASSERT_EQ(events.size(), 7U);
    EXPECT_EQ(events[5]["delta"]["stop_reason"], "compaction");
  }
}

TEST_F(CompactEdits, SummariesOfOthersAreText) {
  const auto block = [](const Json& content) { return Json{{"type", "compaction"}, {"content", content}}; };
  const Json said = {{"type", "text"}, {"text", "A"}};
  const auto ask = [&](const Json& content) {
    return Ask({User("Old"), {{"role", "assistant"}, {"content", {block(content), said}}}, User("On")}, Json::array());
  };
  ask("They met.");
  EXPECT_THAT(Prompt(), HasSubstr("They met.<|im_end|>\n<|im_start|>assistant\nA<|im_end|>"));
  EXPECT_THAT(Prompt(), Not(HasSubstr("Old")));
  ask(nullptr);
  EXPECT_THAT(Prompt(), HasSubstr("Old"));
  EXPECT_THAT(ErrorOf(ask(""), 400)["message"].get<std::string>(), HasSubstr("content[0].content"));
}

class ThinkingEdits : public ContextEdits {
 protected:
  ThinkingEdits() : ContextEdits("qwen3") {}
  static Json Clear(const Json& keep) { return {{"type", "clear_thinking_20251015"}, {"keep", keep}}; }
  static Json Turns(int64_t value) { return {{"type", "thinking_turns"}, {"value", value}}; }
  void Sample(std::string_view sampled) {
    engine.Start(engine.count() - 1);
    engine.Sample(engine.count() - 1, sampled);
    engine.End(engine.count() - 1);
  }
};

// The sampled ids of an answer have its reasoning: an edit takes them out of the timeline.
TEST_F(ThinkingEdits, OldReasoningLeavesTheTimeline) {
  Json messages = Json::array({User("One")});
  const HttpResponse first = Ask(messages, {Clear(Turns(1))});
  Sample("<think>\nFirst thought\n</think>\n\nA");
  messages.push_back({{"role", "assistant"}, {"content", Whole(first)["content"]}});
  messages.push_back(User("Two"));
  const HttpResponse second = Ask(messages, {Clear(Turns(1))});
  EXPECT_THAT(Prompt(), HasSubstr("First thought"));
  Sample("<think>\nSecond thought\n</think>\n\nB");
  const Json answer = Whole(second);
  EXPECT_EQ(answer["context_management"]["applied_edits"], Json::array());
  messages.push_back({{"role", "assistant"}, {"content", answer["content"]}});
  messages.push_back(User("Three"));
  const HttpResponse third = Ask(messages, {Clear(Turns(1))});
  EXPECT_THAT(Prompt(), Not(HasSubstr("First thought")));
  Sample("C");
  EXPECT_EQ(Whole(third)["context_management"]["applied_edits"],
            Json({{{"type", "clear_thinking_20251015"}, {"cleared_thinking_turns", 1}, {"cleared_input_tokens", 13}}}));
  // The edited timeline is found again.
  messages.push_back(Assistant("C"));
  messages.push_back(User("Four"));
  Ask(messages, {Clear(Turns(1))});
  const std::vector<TurnRequest> requests = engine.requests();
  EXPECT_EQ(requests[3].timeline, requests[2].timeline);
  EXPECT_NE(requests[2].timeline, requests[1].timeline);
}

TEST_F(ThinkingEdits, AllOfItIsKept) {
  const Json thought = {{"type", "thinking"}, {"thinking", "Hm"}, {"signature", "x"}};
  const Json said = {{"type", "text"}, {"text", "A"}};
  Json messages = Json::array();
  for (int i = 0; i < 3; ++i) {
    messages.push_back(User("Go"));
    messages.push_back({{"role", "assistant"}, {"content", {thought, said}}});
  }
  messages.push_back(User("On"));
  for (const Json& keep : {Json("all"), Json({{"type", "all"}}), Turns(3)}) {
    EXPECT_EQ(Applied(Ask(messages, {Clear(keep)})), Json::array()) << keep;
  }
  EXPECT_EQ(Applied(Ask(messages, {Clear(Turns(1))}))[0]["cleared_thinking_turns"], 2);
  EXPECT_EQ(Applied(Ask(messages, {{{"type", "clear_thinking_20251015"}}}))[0]["cleared_thinking_turns"], 2);
}

}  // namespace
}  // namespace ringside
