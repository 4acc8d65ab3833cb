// A client's conversation names select between timelines with equal histories, and have no other effect.
#include "tests/ws/chat/chat_fixture.h"

namespace ringside {
namespace {

class TimelineKeyTest : public ChatTest {
 protected:
  struct Named {
    Json fields = Json::object();
    std::vector<std::pair<std::string, std::string>> headers = {};
  };
  /// Asks, answers "Yo", and returns the turn's timeline.
  TimelineId Turn(const std::string& path, const Json& messages, const Named& named,
                  const std::string& principal = "me") {
    HttpRequest request;
    request.method = "POST";
    request.path = path;
    request.headers = named.headers;
    request.principal = principal;
    Json body = {{"model", "tiny"}, {"messages", messages}, {"max_tokens", 9}};
    body.update(named.fields);
    request.body = body.dump();
    const HttpResponse answer = router.Route(request);
    engine.AnswerLast("Yo");
    EXPECT_EQ(Late(answer).status, 200);
    return engine.last().timeline;
  }
  static Named Field(const std::string& name, const Json& value) { return {.fields = Json::object({{name, value}})}; }
  static Named Header(const std::string& name, const std::string& value) {
    return {.fields = Json::object({{"stream", false}}), .headers = {{name, value}}};
  }
  /// Two conversations with the same messages keep separate timelines.
  void ExpectApart(const std::string& path, const Named& one, const Named& two) {
    const Json first = Json::array({User("Hi from " + std::to_string(++conversations_))});
    const Json second = Json::array({first[0], Assistant("Yo"), User("And?")});
    const TimelineId one_has = Turn(path, first, one), two_has = Turn(path, first, two);
    ASSERT_NE(one_has, two_has);
    EXPECT_EQ(Turn(path, second, two), two_has) << path << two.fields;
    EXPECT_EQ(Turn(path, second, one), one_has) << path << one.fields;
  }
  int conversations_ = 0;
};

TEST_F(TimelineKeyTest, DecidesBetweenEqualHistories) {
  for (const char* field : {"prompt_cache_key", "session_id"}) {
    ExpectApart("/v1/chat/completions", Field(field, "a"), Field(field, "b"));
  }
  for (const char* header : {"x-session-id", "x-conversation-id"}) {
    ExpectApart("/v1/chat/completions", Header(header, "a"), Header(header, "b"));
    ExpectApart("/api/chat", Header(header, "a"), Header(header, "b"));
  }
  const auto user = [](const char* id) { return Field("metadata", Json::object({{"user_id", id}})); };
  ExpectApart("/v1/messages", user("a"), user("b"));
  // The most specific name counts.
  const auto named = [](const char* session) {
    Named all = Header("x-session-id", "c");
    all.fields.update(Json::object({{"prompt_cache_key", "app"}, {"session_id", session}}));
    return all;
  };
  ExpectApart("/v1/chat/completions", named("a"), named("b"));
}

TEST_F(TimelineKeyTest, IsNotFoundByTheKeyAlone) {
  const std::string path = "/v1/chat/completions";
  const Named named = Field("session_id", "a");
  const TimelineId mine = Turn(path, Json::array({User("Hi")}), named);
  const Json more = Json::array({User("Hi"), Assistant("Yo"), User("And?")});
  EXPECT_NE(Turn(path, more, named, "another"), mine) << "another owner's";
  EXPECT_NE(Turn(path, Json::array({User("Hello")}), named), mine) << "another text";
  EXPECT_EQ(Turn(path, more, Field("session_id", "b")), mine) << "the same text under another name";
  EXPECT_NE(Turn(path, Json::array({User("Hey")}), Field("session_id", std::string(513, 'x'))), mine);
}

}  // namespace
}  // namespace ringside
