// Images of stored conversations: restarts, forks, rewinds, exports, deletion, and damaged records.
#include <gmock/gmock.h>

#include "session/image_records.h"
#include "tests/session/images/image_fixture.h"

namespace ringside {
namespace {

std::vector<ItemImage> ImagesIn(const Result<SharedList<Item>>& items) {
  std::vector<ItemImage> images;
  if (!items.ok()) return images;
  for (const Item& item : *items) images.insert(images.end(), item.images.begin(), item.images.end());
  return images;
}

TEST_F(ImageSessionTest, ImagesSurviveARestart) {
  const std::string id = NewConversation(), file = FileOf(32, 16);
  const TurnRequest before = Turn(AskWith({"", "what?"}, {file}, id));
  Restart();
  const std::vector<ItemImage> images = ImagesIn(table->GetItems(me, id));
  ASSERT_EQ(images.size(), 1U);
  EXPECT_EQ(images[0].file->bytes, file);
  EXPECT_EQ(images[0].file->width, 32);
  const TurnRequest after = Turn(Ask("and?", id));
  EXPECT_TRUE(std::equal(before.tokens.begin(), before.tokens.end(), after.tokens.begin()));
  ASSERT_EQ(after.images.size(), 1U);
  EXPECT_EQ(after.images[0].position, before.images[0].position);
  ASSERT_NE(after.images[0].picture, nullptr);
  EXPECT_EQ(decoder.calls, 2) << "once for each process";
}

TEST_F(ImageSessionTest, ATurnThatWasKilledKeepsItsImage) {
  const std::string id = NewConversation();
  ASSERT_TRUE(table->StartTurn(me, AskWith({"", "what?"}, {FileOf(16, 16)}, id), sink).ok());
  engine->Start(0);
  engine->Say(0, "be");
  table->Flush();
  Restart();
  EXPECT_EQ(ImagesIn(table->GetItems(me, id)).size(), 1U);
  TurnSpec more = Ask("", id);
  more.input.clear();
  const TurnRequest request = Turn(more, "gun");
  EXPECT_TRUE(request.continues_answer);
  EXPECT_EQ(request.images.size(), 1U);
}

TEST_F(ImageSessionTest, AnImageIsStoredOncePerConversation) {
  const std::string id = NewConversation(), file = FileOf(16, 16, std::string(100'000, 'x'));
  Turn(AskWith({"", "1"}, {file}, id));
  const uint64_t once = table->GetSession(me, id).value().recorded.bytes;
  EXPECT_GT(once, 100'000U);
  Turn(AskWith({"", "2"}, {file}, id));
  EXPECT_LT(table->GetSession(me, id).value().recorded.bytes, once + 50'000);
  EXPECT_GT(table->Owners().front().stored_bytes, 100'000);
  ASSERT_TRUE(table->DeleteSession(me, id).ok());
  table->Flush();
  EXPECT_TRUE(table->Owners().empty() || table->Owners().front().stored_bytes < 50'000);
}

TEST_F(ImageSessionTest, ForksAndRewindsHaveTheirImages) {
  const std::string id = NewConversation();
  Turn(AskWith({"", "first"}, {FileOf(16, 16, "a")}, id));
  const TurnRequest two = Turn(AskWith({"", "second"}, {FileOf(16, 16, "b")}, id));
  const std::string fork = table->Fork(me, id, 2).value().id;
  ASSERT_TRUE(table->Rewind(me, id, 2).ok());
  Restart();
  EXPECT_EQ(ImagesIn(table->GetItems(me, fork)).size(), 1U);
  EXPECT_EQ(ImagesIn(table->GetItems(me, id)).size(), 1U);
  // The image that the rewind dropped is added again.
  const TurnRequest again = Turn(AskWith({"", "second"}, {FileOf(16, 16, "b")}, id));
  EXPECT_EQ(again.tokens, two.tokens);
  EXPECT_EQ(Turn(Ask("x", fork)).images.size(), 1U);
  Restart();
  EXPECT_EQ(ImagesIn(table->GetItems(me, id)).size(), 2U);
}

TEST_F(ImageSessionTest, DeletingAnItemMovesLaterImages) {
  const std::string id = NewConversation();
  Turn(Ask("text", id));
  Turn(AskWith({"", "image"}, {FileOf(16, 16)}, id));
  const SharedList<Item> items = table->GetItems(me, id).value();
  ASSERT_TRUE(table->DeleteItem(me, id, items[0].id).ok());
  const TurnRequest request = Turn(Ask("x", id));
  ASSERT_EQ(request.images.size(), 1U);
  EXPECT_TRUE(IsImageToken(request.tokens[static_cast<size_t>(request.images[0].position)]));
}

TEST_F(ImageSessionTest, ExportsContainImages) {
  const std::string id = NewConversation(), file = FileOf(32, 16);
  const TurnRequest before = Turn(AskWith({"", "what?"}, {file}, id));
  const std::string bytes = table->ExportSession(me, id).value();
  const std::string copy = table->ImportSession(me, bytes).value().id;
  Restart();
  const std::vector<ItemImage> images = ImagesIn(table->GetItems(me, copy));
  ASSERT_EQ(images.size(), 1U);
  EXPECT_EQ(images[0].file->bytes, file);
  const TurnRequest after = Turn(Ask("and?", copy));
  EXPECT_TRUE(std::equal(before.tokens.begin(), before.tokens.end(), after.tokens.begin()));
}

// Whatever an export writes, an import accepts.
TEST_F(ImageSessionTest, ExportsAboveTheLimitOfImportsAreRefused) {
  const std::string id = NewConversation();
  const auto file = [](const std::string& name) { return FileOf(16, 16, name + std::string(18 << 20, 'x')); };
  for (const char* name : {"a", "b", "c", "d", "a", "a", "a", "a"}) Turn(AskWith({"", "what?"}, {file(name)}, id));
  const std::string bytes = table->ExportSession(me, id).value();
  EXPECT_GT(bytes.size(), size_t{72} << 20) << "each file once";
  EXPECT_LT(bytes.size(), size_t{73} << 20);
  table->Flush();
  const std::string copy = table->ImportSession(me, bytes).value().id;
  EXPECT_EQ(ImagesIn(table->GetItems(me, copy)).size(), 8U);
  table->Flush();
  for (const char* name : {"e", "f", "g", "h"}) Turn(AskWith({"", "what?"}, {file(name)}, id));
  const Status refused = table->ExportSession(me, id).status();
  EXPECT_EQ(refused.reason(), "export_too_large");
  EXPECT_THAT(refused.message(), ::testing::HasSubstr("145 MiB. An import may have 128"));
  table->Flush();
  const std::string fork = table->Fork(me, id, 16).value().id;
  EXPECT_TRUE(table->ExportSession(me, fork).ok());
}

// The owner's limit holds for images of imports.
TEST_F(ImageSessionTest, ImportsOfImagesCountForTheirOwner) {
  const std::string id = NewConversation();
  Turn(AskWith({"", "what?"}, {FileOf(16, 16, std::string(3 << 20, 'x'))}, id));
  const std::string bytes = table->ExportSession(me, id).value();
  options.max_bytes_per_owner = 2 << 20;
  Restart();
  EXPECT_EQ(table->ImportSession(me, bytes).status().code(), StatusCode::kOverloaded);
  bool more = false;
  EXPECT_EQ(table->ListIds(me.principal, "", 10, &more).value().size(), 1U);
}

TEST_F(ImageSessionTest, AModelThatLostItsImagesNamesThem) {
  const std::string id = NewConversation();
  Turn(AskWith({"", "what?"}, {FileOf(16, 16)}, id));
  options.images = nullptr;
  options.pictures = nullptr;
  Restart();
  const Status refused = Refusal(Ask("and?", id));
  EXPECT_EQ(refused.reason(), "unsupported_value") << refused.message();
  EXPECT_EQ(ImagesIn(table->GetItems(me, id)).size(), 1U);
  options.images = TestFormat();
  Restart();
  EXPECT_EQ(Turn(Ask("and?", id)).images.size(), 1U);
}

TEST(ImageRecords, DamagedOnesAreErrors) {
  ImageFile file{.bytes = "bytes", .width = 2, .height = 3, .digest = Sha256("bytes")};
  const std::string record = Encode(file).payload;
  ImageFiles files;
  ASSERT_TRUE(files.Add(record, true).ok());
  for (size_t length = 0; length < record.size(); ++length) {
    EXPECT_FALSE(files.Add(std::string_view(record).substr(0, length)).ok());
  }
  file.bytes = "other";
  EXPECT_TRUE(files.Add(Encode(file).payload).ok()) << "the journal has checksums of its own";
  EXPECT_FALSE(files.Add(Encode(file).payload, true).ok());
  for (const int64_t height : {int64_t{0}, int64_t{-1}, limits::kMaxImagePixels}) {
    file.height = height;
    EXPECT_FALSE(files.Add(Encode(file).payload).ok()) << height;
  }
  TimelinePatch patch;
  patch.items.push_back({.role = ChatRole::kUser, .text = std::string(kImageMark)});
  patch.items[0].images.push_back({std::make_shared<const ImageFile>(ImageFile{.digest = Sha256("unknown")})});
  EXPECT_FALSE(files.Resolve(&patch).ok());
}

TEST(ImageItems, MarksAndImagesMustAgree) {
  const auto applies = [](ChatRole role, const std::string& text, size_t images) {
    TimelinePatch patch;
    patch.items.push_back({.role = role, .text = text});
    for (size_t i = 0; i < images; ++i) patch.items[0].images.push_back({std::make_shared<const ImageFile>()});
    return Timeline().Apply(std::move(patch), kAnyVocabulary).ok();
  };
  const std::string mark(kImageMark);
  EXPECT_TRUE(applies(ChatRole::kUser, mark + "a" + mark, 2));
  EXPECT_TRUE(applies(ChatRole::kTool, mark, 1));
  EXPECT_TRUE(applies(ChatRole::kUser, mark, 0)) << "a character";
  EXPECT_FALSE(applies(ChatRole::kUser, mark, 2));
  EXPECT_FALSE(applies(ChatRole::kUser, mark + mark, 1));
  EXPECT_FALSE(applies(ChatRole::kAssistant, mark, 1));
}

}  // namespace
}  // namespace ringside
