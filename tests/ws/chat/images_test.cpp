// Images on the stateless faces: each form reaches the model, and each fault names its field.
#include <gmock/gmock.h>

#include "tests/session/images/image_fixture.h"
#include "tests/ws/chat/chat_fixture.h"

namespace ringside {
namespace {

using ::testing::HasSubstr;

SessionTableOptions WithImages() {
  SessionTableOptions options = TableFixture::Options();
  options.images = TestFormat();
  options.pictures =
      std::make_shared<PictureReader>([](const std::string&, std::string_view file, const ChargePicture& charge) {
        return FakeDecoder().Decode(file, charge);
      });
  return options;
}

class ImageChatTest : public ChatTest {
 protected:
  ImageChatTest() : ChatTest(WithImages()) {}

  /// Sends a request; the turn that it starts has this image of two tokens, between these texts.
  void ExpectImage(const std::string& path, const Json& body, const std::string& around) {
    const size_t before = engine.count();
    const HttpResponse response = Post(path, body);
    ASSERT_EQ(engine.count(), before + 1) << response.body;
    const TurnRequest request = engine.last();
    std::string text;
    for (const TokenId id : request.tokens) text += IsImageToken(id) ? "#" : std::string(tokenizer.TokenName(id));
    EXPECT_THAT(text, HasSubstr(around));
    ASSERT_EQ(request.images.size(), 1U);
    EXPECT_EQ(request.images[0].picture->digest, Sha256(file));
    engine.AnswerLast("yes");
    (void)Late(response);
  }
  static Json Ask(const Json& content) {
    return {{"max_tokens", 9}, {"messages", {{{"role", "user"}, {"content", content}}}}};
  }

  const std::string file = FileOf(32, 16), base64 = EncodeBase64(file), url = "data:image/png;base64," + base64;
  const Json what = {{"type", "text"}, {"text", "what?"}};
};

TEST_F(ImageChatTest, EachFormIsRead) {
  for (const Json& image : {Json{{"url", url}, {"detail", "low"}}, Json(url)}) {
    ExpectImage("/v1/chat/completions", Ask(Json::array({{{"type", "image_url"}, {"image_url", image}}, what})),
                "user\n##\nwhat?<|im_end|>");
  }
  const Json source = {{"type", "base64"}, {"media_type", "image/png"}, {"data", base64}};
  ExpectImage("/v1/messages", Ask(Json::array({what, {{"type", "image"}, {"source", source}}})),
              "user\nwhat?\n##<|im_end|>");
  ExpectImage("/api/chat",
              {{"stream", false}, {"messages", {{{"role", "user"}, {"content", "what?"}, {"images", {base64}}}}}},
              "user\n##\nwhat?<|im_end|>");
  ExpectImage("/api/generate", {{"stream", false}, {"prompt", "what?"}, {"images", {base64}}},
              "user\n##\nwhat?<|im_end|>");
}

TEST_F(ImageChatTest, AToolResultMayBeAnImage) {
  const Json source = {{"type", "base64"}, {"media_type", "image/png"}, {"data", base64}};
  const Json body = {{"max_tokens", 9},
                     {"messages",
                      {{{"role", "user"}, {"content", "look"}},
                       {{"role", "assistant"},
                        {"content", {{{"type", "tool_use"}, {"id", "c"}, {"name", "f"}, {"input", Json::object()}}}}},
                       {{"role", "user"},
                        {"content",
                         {{{"type", "tool_result"},
                           {"tool_use_id", "c"},
                           {"content", {{{"type", "image"}, {"source", source}}}}}}}}}}};
  ExpectImage("/v1/messages", body, "##");
}

TEST_F(ImageChatTest, FaultsNameTheirField) {
  const auto chat = [&](const Json& image) {
    return Ask(Json::array({{{"type", "image_url"}, {"image_url", image}}}));
  };
  const auto message = [&](const Json& source) { return Ask(Json::array({{{"type", "image"}, {"source", source}}})); };
  const struct {
    const char* path;
    Json body;
    const char *code, *param;
  } cases[] = {
      {"/v1/chat/completions", chat({{"url", "https://example.com/a.png"}}), "image_url_not_allowed",
       "messages[0].content[0].image_url.url"},
      {"/v1/chat/completions", chat("x"), "image_url_not_allowed", "messages[0].content[0].image_url"},
      {"/v1/chat/completions", chat({{"url", 7}}), "invalid_type", "messages[0].content[0].image_url.url"},
      {"/v1/chat/completions", chat({{"url", "data:image/png;base64,!"}}), "invalid_value",
       "messages[0].content[0].image_url.url"},
      {"/v1/chat/completions", chat(nullptr), "missing_required_parameter", "messages[0].content[0].image_url"},
  };
  for (const auto& one : cases) {
    const Json error = ErrorOf(Post(one.path, one.body), 400);
    EXPECT_EQ(error["code"], one.code) << one.body;
    EXPECT_EQ(error["param"], one.param) << one.body;
  }
  const auto says = [&](const Json& source) { return ErrorOf(Post("/v1/messages", message(source)), 400)["message"]; };
  EXPECT_THAT(says({{"type", "url"}, {"url", "https://example.com"}}), HasSubstr("does not fetch images"));
  EXPECT_THAT(says({{"type", "base64"}, {"media_type", "image/png"}, {"data", "?"}}), HasSubstr("not base64"));
  EXPECT_THAT(Post("/api/chat", {{"messages", {{{"role", "user"}, {"content", ""}, {"images", {"?"}}}}}}).body,
              HasSubstr("not base64"));
  EXPECT_EQ(engine.count(), 0U);
}

TEST_F(ImageChatTest, TheModelIsDescribedAsReadingImages) {
  EXPECT_EQ(Json::parse(Call("GET", "/props").body)["modalities"]["vision"], true);
  const Json shown = Json::parse(Post("/api/show", {{"model", "tiny"}}).body);
  EXPECT_THAT(shown["capabilities"].dump(), HasSubstr("vision"));
}

}  // namespace
}  // namespace ringside
