// Requests above the limit of text: only images may be the rest.
#include "ws/fields/request_size.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace ringside {
namespace {

using Json = nlohmann::ordered_json;

constexpr auto kMost = static_cast<size_t>(limits::kMaxMessageBytes);
const std::string kFile(1'000, 'A');

size_t ImageBytes(const Json& request) { return ImageBytesOf(ParseJson(request.dump()).value()); }
Json Image() { return {{"type", "input_image"}, {"image_url", kFile}}; }
Json ChatImage() { return {{"type", "image_url"}, {"image_url", {{"url", kFile}}}}; }
Json AnthropicImage() { return {{"type", "image"}, {"source", {{"type", "base64"}, {"data", kFile}}}}; }
Json Message(const Json& part) { return {{"role", "user"}, {"content", Json::array({part})}}; }

TEST(RequestSizeTest, CountsImagesOfEveryFace) {
  const Json text = {{"type", "text"}, {"text", "what?"}};
  EXPECT_EQ(ImageBytes({{"input", {Message(Image()), Message(text)}}}), 1'000u);
  EXPECT_EQ(ImageBytes({{"items", {Message(Image()), Message(Image())}}}), 2'000u);
  EXPECT_EQ(ImageBytes({{"item", Message(Image())}}), 1'000u);
  EXPECT_EQ(ImageBytes({{"response", {{"input", Json::array({Message(Image())})}}}}), 1'000u);
  EXPECT_EQ(ImageBytes({{"input", {{{"type", "function_call_output"}, {"output", Json::array({Image()})}}}}}), 1'000u);
  EXPECT_EQ(ImageBytes({{"messages", {Message(ChatImage())}}}), 1'000u);
  EXPECT_EQ(ImageBytes({{"messages", {Message({{"type", "image_url"}, {"image_url", kFile}})}}}), 1'000u);
  EXPECT_EQ(ImageBytes({{"messages", {Message(AnthropicImage())}}}), 1'000u);
  const Json result = {{"type", "tool_result"}, {"content", Json::array({AnthropicImage()})}};
  EXPECT_EQ(ImageBytes({{"messages", {Message(result)}}}), 1'000u);
  EXPECT_EQ(ImageBytes({{"messages", {{{"content", "what?"}, {"images", {kFile, kFile}}}}}}), 2'000u);
  EXPECT_EQ(ImageBytes({{"prompt", "what?"}, {"images", Json::array({kFile})}}), 1'000u);
}

TEST(RequestSizeTest, CountsNothingThatIsText) {
  EXPECT_EQ(ImageBytes({{"input", kFile}, {"instructions", kFile}, {"image_url", kFile}}), 0u);
  EXPECT_EQ(ImageBytes({{"tools", {{{"type", "function"}, {"parameters", Image()}}}}}), 0u);
  EXPECT_EQ(ImageBytes({{"tools", {Message(Image())}}, {"text", Image()}}), 0u);
  EXPECT_EQ(ImageBytes({{"messages", {Message({{"type", "text"}, {"text", kFile}, {"image_url", kFile}})}}}), 0u);
  const Json call = {{"type", "tool_use"}, {"input", Message(AnthropicImage())}};
  EXPECT_EQ(ImageBytes({{"messages", {Message(call)}}}), 0u) << "a call's arguments are rendered as text";
  const Json arguments = {{"function", {{"arguments", {{"images", {kFile}}}}}}};
  EXPECT_EQ(ImageBytes({{"messages", {{{"content", ""}, {"tool_calls", {arguments}}}}}}), 0u);
  const Json document = {{"type", "document"}, {"source", {{"type", "text"}, {"data", kFile}}}};
  EXPECT_EQ(ImageBytes({{"messages", {Message(document)}}}), 0u);
  for (const char* text : {"[]", "1", "{\"messages\":1}", "{\"messages\":[1]}", "{\"input\":[{\"content\":[1]}]}",
                           "{\"images\":[1]}", "{\"input\":[{\"content\":[{\"type\":\"image\",\"source\":1}]}]}"}) {
    EXPECT_EQ(ImageBytesOf(ParseJson(text).value()), 0u) << text;
  }
}

TEST(RequestSizeTest, OnlyImagesMayExceedTheLimitOfText) {
  const auto with = [](size_t text, size_t image) {
    Json request = {{"input", {Message({{"type", "input_image"}, {"image_url", std::string(image, 'A')}})}}};
    request["instructions"] = std::string(text, 'x');
    return ParseRequest(request.dump()).status();
  };
  EXPECT_TRUE(with(kMost - 1'000, 0).ok());
  EXPECT_TRUE(with(kMost - 1'000, 3 * kMost).ok());
  for (const size_t image : {size_t{0}, size_t{1'000}, kMost}) {
    const Status refused = with(kMost, image);
    EXPECT_EQ(refused.reason(), "request_too_large") << image << ": " << refused.message();
  }
}

TEST(RequestSizeTest, OneLargeMessageMayWait) {
  constexpr auto kQueue = static_cast<size_t>(limits::kMaxQueuedBytesPerConnection);
  EXPECT_TRUE(MayWait(0, 2 * kQueue));
  EXPECT_FALSE(MayWait(1, kQueue));
  EXPECT_TRUE(MayWait(1, kQueue - 1));
}

}  // namespace
}  // namespace ringside
