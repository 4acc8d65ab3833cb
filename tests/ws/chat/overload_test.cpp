// A turn that would wait for too long: the refusal of each stateless API, as its stock clients expect it.
#include <gmock/gmock.h>

#include "base/refusals/server_overload.h"
#include "tests/ws/chat/chat_fixture.h"

namespace ringside {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::Pair;
using ::testing::SizeIs;

class OverloadTest : public ChatTest {
 protected:
  OverloadTest() { engine.Overload(ServerOverload{.wait_s = 4.2, .retry_after_s = 7}.ToStatus()); }
  static void ExpectRetryAfter(const HttpResponse& refused) {
    EXPECT_THAT(refused.headers, Contains(Pair("Retry-After", "7")));
    EXPECT_THAT(refused.headers, Contains(Pair("retry-after-ms", "7000")));
  }
  Json Chat(bool stream, int choices = 1) const {
    return {{"model", "tiny"}, {"messages", {User("Hi")}}, {"n", choices}, {"stream", stream}};
  }
};

TEST_F(OverloadTest, OpenAiRequestsGet429) {
  const std::pair<const char*, Json> requests[] = {
      {"/v1/chat/completions", Chat(false)},
      {"/v1/chat/completions", Chat(true)},
      {"/v1/completions", {{"model", "tiny"}, {"prompt", "Hi"}}},
  };
  for (const auto& [path, body] : requests) {
    const HttpResponse refused = Post(path, body);
    const Json error = ErrorOf(refused, 429);
    EXPECT_EQ(error["code"], "server_overloaded") << path;
    EXPECT_EQ(error["type"], "rate_limit_error") << path;
    EXPECT_THAT(error["message"].get<std::string>(), HasSubstr("4.20 s"));
    ExpectRetryAfter(refused);
  }
  EXPECT_EQ(engine.count(), 0U);
}

TEST_F(OverloadTest, AnthropicRequestsGet529) {
  for (const bool stream : {false, true}) {
    const HttpResponse refused =
        Post("/v1/messages", {{"model", "tiny"}, {"max_tokens", 9}, {"messages", {User("Hi")}}, {"stream", stream}});
    const Json error = ErrorOf(refused, 529);
    EXPECT_EQ(error["type"], "overloaded_error");
    EXPECT_EQ(error["details"]["error_code"], "server_overloaded");
    ExpectRetryAfter(refused);
  }
}

TEST_F(OverloadTest, OllamaRequestsGet429) {
  const std::pair<const char*, Json> requests[] = {
      {"/api/chat", {{"model", "tiny"}, {"messages", {User("Hi")}}, {"stream", false}}},
      {"/api/generate", {{"model", "tiny"}, {"prompt", "Hi"}, {"stream", false}}},
  };
  for (const auto& [path, body] : requests) {
    const HttpResponse refused = Post(path, body);
    EXPECT_EQ(refused.status, 429) << path;
    EXPECT_THAT(Json::parse(refused.body)["error"].get<std::string>(), HasSubstr("overloaded"));
    ExpectRetryAfter(refused);
  }
}

TEST_F(OverloadTest, FurtherTurnsOfAnAdmittedRequestAreNotRefused) {
  engine.Overload(Status::Ok());
  const HttpResponse answer = Post("/v1/chat/completions", Chat(false, 3));
  engine.Overload(ServerOverload{.wait_s = 4.2, .retry_after_s = 7}.ToStatus());
  for (size_t i = 0; i < 3; ++i) {
    ASSERT_TRUE(Eventually([&] { return engine.count() > i; }));
    engine.Answer(i, "a");
  }
  EXPECT_THAT(Whole(answer)["choices"], SizeIs(3));
}

}  // namespace
}  // namespace ringside
