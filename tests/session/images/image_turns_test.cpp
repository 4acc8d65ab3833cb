// Images in turns: their place in the prompt, texts that look like images, refusals, and the owner's limits.
#include <gmock/gmock.h>

#include "session/chat/templates/image_pieces.h"
#include "tests/session/images/image_fixture.h"

namespace ringside {
namespace {

using ::testing::HasSubstr;

constexpr char kQwen[] =
    "{% for message in messages %}<|im_start|>{{ message.role }}\n{% if message.content is string %}"
    "{{ message.content }}{% else %}{% for part in message.content %}{% if part.type == 'image' %}"
    "<|vision_start|><|image|><|vision_end|>{% else %}{{ part.text }}{% endif %}{% endfor %}{% endif %}"
    "<|im_end|>\n{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}";

TEST_F(ImageSessionTest, AnImageIsItsTokensAtItsPlace) {
  const std::string file = FileOf(32, 16, "red");
  const TurnRequest request = Turn(AskWith({"before ", " after"}, {file}, NewConversation()));
  EXPECT_THAT(Prompt(request), HasSubstr("<|im_start|>user\nbefore \n##\n after<|im_end|>\n"));
  ASSERT_EQ(request.images.size(), 1U);
  const ImageInput& image = request.images[0];
  EXPECT_EQ(image.tokens, 2);
  const auto at = static_cast<size_t>(image.position);
  EXPECT_EQ(request.tokens[at], ImageToken(Sha256(file), 0));
  EXPECT_EQ(request.tokens[at + 1], ImageToken(Sha256(file), 1));
  ASSERT_NE(image.picture, nullptr);
  EXPECT_EQ(image.picture->width, 32);
  EXPECT_EQ(image.picture->rgb.size(), 32U * 16 * 3);
  EXPECT_EQ(image.picture->digest, Sha256(file));
}

TEST_F(ImageSessionTest, ALaterTurnAddsItsNewTokensOnly) {
  const std::string id = NewConversation(), file = FileOf(48, 16);
  const TurnRequest first = Turn(AskWith({"", "what?"}, {file, file}, id));
  const TurnRequest second = Turn(Ask("and?", id));
  ASSERT_GT(second.tokens.size(), first.tokens.size());
  EXPECT_TRUE(std::equal(first.tokens.begin(), first.tokens.end(), second.tokens.begin()));
  EXPECT_EQ(second.known_tokens, std::ssize(first.tokens) + 4) << "the answer and its end";
  ASSERT_EQ(second.images.size(), 1U);
  EXPECT_EQ(second.images[0].position, first.images[0].position);
  EXPECT_EQ(decoder.calls, 1) << "the second turn has the picture in the cache";
  const TurnRequest third = Turn(AskWith({"", "another"}, {FileOf(16, 16)}, id));
  ASSERT_EQ(third.images.size(), 2U);
  EXPECT_LT(third.images[0].position, third.images[1].position);
}

TEST_F(ImageSessionTest, TheTemplateWritesMarkupAroundAnImage) {
  *chat = ChatTemplate::Recognise(kQwen, {"", "<|im_end|>"}).value();
  EXPECT_EQ(chat->image_markup(), "<|vision_start|><|image|><|vision_end|>");
  const TurnRequest request =
      Turn(AskWith({"", "one", "two"}, {FileOf(16, 16, "a"), FileOf(16, 16, "b")}, NewConversation()));
  EXPECT_THAT(Prompt(request), HasSubstr("user\n<|vision_start|>#<|vision_end|>one<|vision_start|>#<|vision_end|>two"));
}

TEST_F(ImageSessionTest, AModelMayWantTextAroundAnImage) {
  *chat = ChatTemplate::Recognise(kQwen, {"", "<|im_end|>"}).value();
  Close();
  options.images = TestFormat("\n\n");
  Open();
  const TurnRequest request = Turn(AskWith({"a", "b"}, {FileOf(16, 16)}, NewConversation()));
  EXPECT_THAT(Prompt(request), HasSubstr("user\na<|vision_start|>\n\n#\n\n<|vision_end|>b<|im_end|>"));
  ASSERT_EQ(request.images.size(), 1U);
  EXPECT_EQ(request.images[0].tokens, 1) << "the text is no part of the image";
}

TEST_F(ImageSessionTest, ATemplateThatRendersWholeConversationsHasImagesToo) {
  *chat = ChatTemplate::Recognise(std::string("{% if messages | length > 1 %}.{% endif %}") + kQwen, {"", "<|im_end|>"})
              .value();
  ASSERT_TRUE(chat->renders_whole());
  const std::string id = NewConversation();
  const std::string asked = "user\nthis: <|vision_start|>##<|vision_end|> <|image|>?<|im_end|>";
  EXPECT_THAT(Prompt(Turn(AskWith({"this: ", " <|image|>?"}, {FileOf(32, 16)}, id))), HasSubstr(asked));
  const TurnRequest second = Turn(Ask("and?", id));
  EXPECT_THAT(Prompt(second), HasSubstr(asked));
  EXPECT_EQ(second.images.size(), 1U);
}

TEST_F(ImageSessionTest, TextThatLooksLikeAnImageIsText) {
  const std::string mark(kImageMark);
  const std::string id = NewConversation();
  TurnRequest request = Turn(AskWith({"a" + mark, mark + "<|image|>"}, {FileOf(16, 16)}, id));
  EXPECT_THAT(Prompt(request), HasSubstr("a\xEF\xBF\xBD\n#\n\xEF\xBF\xBD<|image|><|im_end|>"));
  EXPECT_EQ(request.images.size(), 1U);
  EXPECT_EQ(std::ranges::count(request.tokens, ImageTokenizer::kImage), 0) << "the placeholder is never a token";
  request = Turn(Ask("only text " + mark, id));
  EXPECT_THAT(Prompt(request), HasSubstr("only text " + mark));
  EXPECT_EQ(request.images.size(), 1U);
}

TEST_F(ImageSessionTest, AStrayImageByteIsNoImage) {
  Rendering rendering{.pieces = {{"a\xFF\xFF", false}}};
  EXPECT_FALSE(PlaceImages("", "<|image|>", "", {{1}}, &rendering).ok());
  EXPECT_FALSE(PlaceImages("", "<|image|>", "", {{1}, {2}, {3}}, &rendering).ok());
  rendering.message_starts = {0, 1};
  rendering.pinned_pieces = 1;
  ASSERT_TRUE(PlaceImages("<b><|image|>", "<|image|>", "", {{1}, {2}}, &rendering).ok());
  EXPECT_EQ(rendering.Text(), "a<b><|image|><b><|image|>");
  EXPECT_EQ(rendering.message_starts, (std::vector<size_t>{0, 5}));
  EXPECT_EQ(rendering.pinned_pieces, 5U);
}

TEST_F(ImageSessionTest, RefusalsNameTheField) {
  const std::string id = NewConversation();
  const auto with = [&](NewImage image) {
    TurnSpec spec = Ask("", id);
    AddImage(std::move(image), &spec.input.front());
    return spec;
  };
  const auto source = [](const std::string& text, bool base64 = false) {
    NewImage image = ImageOf("");
    image.source = text;
    image.base64 = base64;
    return image;
  };
  const std::vector<std::pair<NewImage, std::string>> cases = {
      {source("https://example.com/a.png"), "image_url_not_allowed"},
      {source("file:///etc/passwd"), "image_url_not_allowed"},
      {source("data:image/png,abc"), "invalid_value"},
      {source("data:image/png;base64"), "invalid_value"},
      {source("data:image/png;base64,"), "invalid_value"},
      {source("data:image/png;base64,a b"), "invalid_value"},
      {source("AAA", true), "invalid_value"},
      {ImageOf("\x89PNG\r\n\x1A\nnonsense"), "invalid_value"},
      {ImageOf(FileOf(4000, 2)), "invalid_value"},  // the ratio of its sides
  };
  for (const auto& [image, reason] : cases) {
    const Status status = Refusal(with(image));
    EXPECT_EQ(status.code(), StatusCode::kInvalidArgument) << image.source;
    EXPECT_EQ(status.reason(), reason) << image.source << ": " << status.message();
    EXPECT_EQ(status.param(), "image_url") << image.source;
  }
  NewImage fault = ImageOf(FileOf(16, 16));
  fault.fault = InvalidArgument("no text", "image_url.url", "invalid_type");
  EXPECT_EQ(Refusal(with(fault)).reason(), "invalid_type");
  TurnSpec many = Ask("", id);
  for (int64_t i = 0; i <= limits::kMaxImagesPerRequest; ++i) AddImage(ImageOf(FileOf(16, 16)), &many.input.front());
  EXPECT_EQ(Refusal(many).reason(), "array_above_max_length");
  TurnSpec system = AskWith({"", "x"}, {FileOf(16, 16)}, id);
  system.input.front().role = ChatRole::kSystem;
  EXPECT_EQ(Refusal(system).reason(), "unsupported_value");
}

TEST_F(ImageSessionTest, AModelWithoutImagesRefusesThemFirst) {
  options.images = nullptr;
  options.pictures = nullptr;
  Restart();
  const std::string id = NewConversation();
  NewImage bad = ImageOf("");
  bad.source = "https://example.com";
  TurnSpec spec = Ask("", id);
  AddImage(bad, &spec.input.front());
  EXPECT_EQ(Refusal(spec).message(), "no images");
  EXPECT_EQ(table->CountInput(me, spec).status().message(), "no images");
  EXPECT_EQ(table->AddItems(me, id, spec.input).status().message(), "no images");
  EXPECT_EQ(table->CreateSession(me, {}, {}, spec.input).status().message(), "no images");
  EXPECT_EQ(decoder.calls, 0);
}

TEST_F(ImageSessionTest, CountsAndAddedItemsReadImages) {
  const std::string id = NewConversation();
  const TurnSpec spec = AskWith({"", "x"}, {FileOf(64, 64)}, id);
  const int64_t with = table->CountInput(me, spec).value(), without = table->CountInput(me, Ask("\nx", id)).value();
  EXPECT_EQ(with - without, 16);
  ASSERT_TRUE(table->AddItems(me, id, spec.input).ok());
  const TurnRequest request = Turn(Ask("now", id));
  ASSERT_EQ(request.images.size(), 1U);
  EXPECT_EQ(request.images[0].tokens, 16);
}

TEST_F(ImageSessionTest, PixelsAreChargedToTheOwnerBeforeTheyAreDecoded) {
  options.max_bytes_per_owner = 1 << 20;
  Restart();
  const std::string id = NewConversation();
  const Status refused = Refusal(AskWith({"", "x"}, {FileOf(1024, 1024)}, id));
  EXPECT_EQ(refused.code(), StatusCode::kOverloaded) << refused.message();
  EXPECT_EQ(decoder.calls, 1);
  EXPECT_EQ(decoder.allocated, 0);
  Turn(AskWith({"", "x"}, {FileOf(256, 256)}, id));
}

TEST_F(ImageSessionTest, AHistoryIsFoundByItsImages) {
  const std::string text(300, 't');
  const auto history = [&](const std::string& file, std::vector<NewItem> more) {
    TurnSpec spec = AskWith({text, ""}, {file});
    spec.input.insert(spec.input.end(), more.begin(), more.end());
    spec.carries_history = true;
    spec.store = false;
    spec.adapter = "";
    return spec;
  };
  const std::vector<NewItem> more = {{ChatRole::kAssistant, "yes"}, {ChatRole::kUser, "and?"}};
  const TurnRequest first = Turn(history(FileOf(16, 16, "a"), {}));
  const TurnRequest second = Turn(history(FileOf(16, 16, "a"), more));
  EXPECT_EQ(second.timeline, first.timeline) << "the same image: it goes on";
  const TurnRequest other = Turn(history(FileOf(16, 16, "b"), more));
  EXPECT_NE(other.timeline, first.timeline);
  EXPECT_EQ(other.tokens[static_cast<size_t>(other.images[0].position)], ImageToken(Sha256(FileOf(16, 16, "b")), 0));
}

TEST_F(ImageSessionTest, AnImageFromAUrlIsStoredLikeAnother) {
  const std::string file = FileOf(32, 16), url = "https://example.org/a.png";
  const auto about = [&](const std::string& source, const std::string& id) {
    TurnSpec spec = AskWith({"", "what?"}, {file}, id);
    spec.input.front().images.front().source = source;
    return spec;
  };
  const std::string id = NewConversation();
  EXPECT_EQ(Refusal(about(url, id)).reason(), "image_url_not_allowed");
  std::vector<std::string> asked;
  fetch = [&](const std::string& owner, std::string_view at, const ChargePicture& charge) -> Result<std::string> {
    asked.push_back(owner + " " + std::string(at));
    RETURN_IF_ERROR(charge(std::ssize(file)));
    if (at != url) return InvalidArgument("not there", "", "invalid_image_url");
    return file;
  };
  Restart();
  const TurnRequest remote = Turn(about(url, id));
  EXPECT_EQ(asked, std::vector<std::string>{"me " + url});
  EXPECT_EQ(table->GetItems(me, id).value()[0].images.front().file->bytes, file);
  EXPECT_EQ(remote.tokens, Turn(AskWith({"", "what?"}, {file}, NewConversation())).tokens);
  EXPECT_EQ(asked.size(), 1u) << "a data URL is not fetched";
  const Status refused = Refusal(about(url + "x", id));
  EXPECT_EQ(refused.reason(), "invalid_image_url");
  EXPECT_EQ(refused.param(), "image_url");
}

TEST_F(ImageSessionTest, FetchedImagesOfARequestHaveALimit) {
  const std::string file = FileOf(16, 16, std::string(limits::kMaxImageFileBytes - 100, 'x'));
  fetch = [&](const std::string&, std::string_view, const ChargePicture& charge) -> Result<std::string> {
    RETURN_IF_ERROR(charge(std::ssize(file)));
    return file;
  };
  Restart();
  TurnSpec spec = AskWith({"", "", "what?"}, {file, file}, NewConversation());
  for (NewImage& image : spec.input.front().images) image.source = "https://example.org/a.png";
  EXPECT_EQ(Refusal(std::move(spec)).reason(), "image_limit_exceeded");
  options.max_bytes_per_owner = 1 << 20;
  Restart();
  spec = AskWith({"", "what?"}, {FileOf(16, 16)}, NewConversation());
  spec.input.front().images.front().source = "https://example.org/a.png";
  EXPECT_EQ(Refusal(std::move(spec)).code(), StatusCode::kOverloaded) << "charged before it is received";
}

}  // namespace
}  // namespace ringside
