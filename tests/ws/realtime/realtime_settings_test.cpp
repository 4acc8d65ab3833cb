// Session settings that apply to all of a Realtime session's responses.
#include "tests/ws/realtime/realtime_fixture.h"

namespace ringside {
namespace {

using Json = nlohmann::ordered_json;

class RealtimeSettingsTest : public RealtimeFixture {};

TEST_F(RealtimeSettingsTest, SettingsApplyToLaterResponses) {
  Client client = Open();
  client.Send({{"type", "session.update"},
               {"session", {{"type", "realtime"}, {"instructions", "Be brief."}, {"max_output_tokens", 7}}}});
  const Json session = client.Event("session.updated")["session"];
  EXPECT_EQ(session["instructions"], "Be brief.");
  EXPECT_EQ(session["max_output_tokens"], 7);
  client.Say("Hi");
  client.Send(kCreate);
  EXPECT_NE(Prompt().find("Be brief."), std::string::npos);
  EXPECT_EQ(engine.last().max_tokens, 7);
  engine.AnswerLast("Yo");
  client.Events();
  client.Send({{"type", "session.update"}, {"session", {{"max_output_tokens", "inf"}, {"tools", Json::array()}}}});
  EXPECT_EQ(client.Event("session.updated")["session"]["instructions"], "Be brief.") << "fields left out stay";
  // A response's own instructions apply to it alone.
  client.Say("More");
  client.Send({{"type", "response.create"}, {"response", {{"instructions", "Be kind."}}}});
  EXPECT_NE(Prompt().find("Be kind."), std::string::npos);
  engine.AnswerLast("Yo");
  client.Events();
  client.Say("More");
  client.Send(kCreate);
  EXPECT_NE(Prompt().find("Be brief."), std::string::npos);
  engine.AnswerLast("Yo");
  client.Events();
  // Received settings may be sent back.
  client.Send({{"type", "session.update"}, {"session", session}});
  EXPECT_EQ(client.Event("session.updated")["session"], session);
}

Json Retention(double ratio, const Json& limits) {
  return {{"type", "retention_ratio"}, {"retention_ratio", ratio}, {"token_limits", limits}};
}

TEST_F(RealtimeSettingsTest, RetentionRatioSetsTheWindowOfANewConversation) {
  Client client = Open();
  const std::string first = conversation_;
  const Json half = Retention(0.5, {{"post_instructions", 100}}), all = Retention(0.8, {{"post_instructions", 90}});
  const auto update = [&](const Json& truncation) {
    client.Send({{"type", "session.update"}, {"session", {{"truncation", truncation}}}});
    const Json session = client.Event("session.updated")["session"];
    EXPECT_EQ(session["truncation"], truncation);
    conversation_ = session["ringside"]["conversation"];
    return table.GetSession({"me", 0}, conversation_).value();
  };
  EXPECT_EQ(update(half).memory_len, 100);
  EXPECT_NE(conversation_, first);
  EXPECT_EQ(table.conversations(), 1) << "the one that there was had nothing in it";
  const SessionInfo exact = update(all);
  EXPECT_EQ(exact.memory_len, 90);
  EXPECT_EQ(exact.eviction, Eviction::kToken);
  client.Say("Hi");
  client.Send(kCreate);
  EXPECT_EQ(engine.last().window.memory_len, 90);
  engine.AnswerLast("Yo");
  client.Events();
  EXPECT_EQ(update(all).id, exact.id);
  EXPECT_EQ(update("auto").memory_len, 90);
  client.Send({{"type", "session.update"}, {"session", {{"truncation", half}}}});
  client.ExpectError("invalid_value", "session.truncation");
  // A returning client sends the same settings again.
  Client again = Open({{"conversation", conversation_}});
  again.Send({{"type", "session.update"}, {"session", {{"truncation", all}}}});
  EXPECT_EQ(again.Event("session.updated")["session"]["truncation"], all);
}

TEST_F(RealtimeSettingsTest, SessionFollowsItsTicket) {
  const Json given = {{"type", "realtime"},
                      {"instructions", "Be brief."},
                      {"max_output_tokens", 7},
                      {"truncation", Retention(0.5, {{"post_instructions", 100}})}};
  Client client(table, {}, given.dump());
  const Json session = client.Event("session.created")["session"];
  for (const auto& [key, value] : given.items()) EXPECT_EQ(session[key], value) << key;
  client.Say("Hi");
  client.Send(kCreate);
  EXPECT_EQ(engine.last().max_tokens, 7);
  EXPECT_EQ(engine.last().window.memory_len, 100);
  EXPECT_NE(Prompt().find("Be brief."), std::string::npos);
  // The resumed conversation already has a window.
  Client other(table, {{"conversation", Open().Say("Hi").is_null() ? "" : conversation_}}, given.dump());
  EXPECT_EQ(other.Event("error")["error"]["param"], "session.truncation");
}

TEST_F(RealtimeSettingsTest, RefusesUnsupportedSettingsAndKeepsTheSocketOpen) {
  Client client = Open();
  const std::vector<std::tuple<Json, std::string, std::string>> cases = {
      {{{"output_modalities", {"audio"}}}, "unsupported_value", "session.output_modalities"},
      {{{"output_modalities", {"text", "audio"}}}, "unsupported_value", "session.output_modalities"},
      {{{"prompt", {{"id", "pmpt_1"}}}}, "unsupported_value", "session.prompt"},
      {{{"model", "other"}}, "unsupported_value", "session.model"},
      {{{"type", "transcription"}}, "unsupported_value", "session.type"},
      {{{"tools", {{{"type", "function"}}}}}, "missing_required_parameter", "session.tools[0].name"},
      {{{"truncation", {{"type", "retention_ratio"}}}},
       "missing_required_parameter",
       "session.truncation.retention_ratio"},
      {{{"truncation", {{"type", "retention_ratio"}, {"retention_ratio", 1.5}}}},
       "invalid_value",
       "session.truncation.retention_ratio"},
      {{{"truncation",
         {{"type", "retention_ratio"}, {"retention_ratio", 0.5}, {"token_limits", {{"post_instructions", 513}}}}}},
       "invalid_value",
       "session.truncation.token_limits.post_instructions"},
      {{{"truncation", {{"type", "ratio"}}}}, "invalid_value", "session.truncation.type"},
      {{{"max_output_tokens", 0}}, "invalid_value", "session.max_output_tokens"},
      {{{"max_output_tokens", "many"}}, "invalid_type", "session.max_output_tokens"},
      {{{"instructions", 5}}, "invalid_type", "session.instructions"},
      {{{"temperature", 5}}, "invalid_value", "temperature"},
  };
  for (const auto& [fields, code, param] : cases) {
    Json session = {{"instructions", "not taken over"}};
    session.update(fields);
    client.Send({{"type", "session.update"}, {"event_id", "e1"}, {"session", session}});
    client.ExpectError(code, param, "e1");
  }
  for (const char* type : {"input_audio_buffer.append", "input_audio_buffer.commit", "input_audio_buffer.clear",
                           "output_audio_buffer.clear", "conversation.item.truncate"}) {
    client.Send({{"type", type}, {"event_id", "e2"}});
    client.ExpectError("unsupported_value", "type", "e2");
  }
  client.Send({{"type", "nonsense"}});
  client.ExpectError("unsupported_event_type", "type");
  client.Send({{"event_id", "e3"}});
  client.ExpectError("missing_required_parameter", "type", "e3");
  client.Send({{"type", "session.update"}, {"event_id", 5}});
  client.ExpectError("invalid_type", "event_id");
  client.SendText("{");
  client.ExpectError("invalid_json", nullptr);
  client.SendText("[]");
  client.ExpectError("invalid_json", nullptr);
  EXPECT_FALSE(client.outbox->TakeClose());
  client.Send({{"type", "session.update"}, {"session", Json::object()}});
  EXPECT_EQ(client.Event("session.updated")["session"]["instructions"], "") << "nothing of what was refused counts";
}

TEST_F(RealtimeSettingsTest, FieldsWithoutEffectAreRefusedWhereRequestsAreStrict) {
  SessionTableOptions options = TableFixture::Options();
  options.strict_requests = true;
  SessionTable strict(options, tokenizer, chat, engine, nullptr, clock);
  Client client(strict);
  client.Event("session.created");
  client.Send({{"type", "session.update"}, {"session", {{"audio", Json::object()}}}});
  client.ExpectError("unknown_parameter", "session.audio");
  client.Send({{"type", "response.create"}, {"response", {{"tracing", "auto"}}}});
  client.ExpectError("unknown_parameter", "response.tracing");
}

TEST_F(RealtimeSettingsTest, FieldsWithoutEffectOnTextAreIgnoredAndReported) {
  Client client = Open();
  const Json audio = {{"input", {{"turn_detection", {{"type", "semantic_vad"}}}}}, {"output", {{"voice", "ash"}}}};
  client.Send({{"type", "session.update"},
               {"session",
                {{"type", "realtime"},
                 {"output_modalities", {"text"}},
                 {"instructions", "Be brief."},
                 {"audio", audio},
                 {"tracing", "auto"},
                 {"include", {"item.input_audio_transcription.logprobs"}},
                 {"prompt", nullptr},
                 {"turn_detection", {{"type", "server_vad"}}}}}});
  const Json updated = client.Event("session.updated")["session"];
  EXPECT_EQ(updated["instructions"], "Be brief.");
  EXPECT_EQ(updated["output_modalities"], Json::array({"text"}));
  EXPECT_EQ(updated["ringside"]["ignored"], Json::array({"audio", "tracing", "include", "turn_detection"}));
  client.Send({{"type", "session.update"}, {"session", {{"temperature", 0.25}, {"parallel_tool_calls", false}}}});
  const Json again = client.Event("session.updated")["session"];
  EXPECT_FALSE(again["ringside"].contains("ignored")) << "of that update only";
  EXPECT_EQ(again["temperature"], 0.25);
  client.Say("Hi");
  client.Send({{"type", "response.create"}, {"response", {{"audio", audio}, {"output_modalities", {"text"}}}}});
  EXPECT_FLOAT_EQ(engine.last().sampling.temperature, 0.25F);
  client.Events();
  engine.AnswerLast("Yo");
  const Json done = client.Events().back();
  ASSERT_EQ(done["type"], "response.done");
  EXPECT_EQ(done["response"]["ringside"]["ignored"], Json::array({"audio"}));
  EXPECT_EQ(done["response"]["ringside"]["tokens_reused"], 0);
}

}  // namespace
}  // namespace ringside
