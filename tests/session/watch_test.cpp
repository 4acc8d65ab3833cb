// Connections that watch a session: all receive its events, none takes it over.
#include <gtest/gtest.h>

#include "session/listeners.h"
#include "tests/session/durable_fixture.h"

namespace ringside {
namespace {

class WatchingSink final : public RecordingSink {
 public:
  using RecordingSink::RecordingSink;
  void OnChanged(const std::string&) override { ++changes; }
  void OnTakenOver(const std::string&) override { taken = true; }
  void OnGone(const std::string&) override { gone = true; }
  int changes = 0;
  bool taken = false, gone = false;
};

class WatchTest : public DurableSessionTest {
 protected:
  std::shared_ptr<WatchingSink> Attach(const std::string& id, uint64_t connection, bool watch = true) {
    auto fresh = std::make_shared<WatchingSink>(connection);
    EXPECT_TRUE(table->Resume(me, {.session = id, .watch = watch}, fresh).ok());
    table->Flush();
    return fresh;
  }
};

TEST_F(WatchTest, AllReceiveTheAnswer) {
  const std::string id = NewConversation();
  const auto one = Attach(id, 21), two = Attach(id, 22), resumed = Attach(id, 23, false);
  Turn(Ask("Hi", id), "Yo");
  for (const auto& each : {one, two, resumed}) {
    EXPECT_EQ(each->text(), "Yo");
    EXPECT_FALSE(each->taken);
  }
  // A watcher may ask, too, and receives each event once.
  ASSERT_TRUE(table->StartTurn({"me", 21}, Ask("And?", id), one).ok());
  engine->AnswerLast("Ya");
  table->Flush();
  EXPECT_EQ(one->text(), "YoYa");
  EXPECT_EQ(two->text(), "YoYa");
}

TEST_F(WatchTest, ChangesWithoutATurnAreReported) {
  const std::string id = NewConversation();
  const auto watcher = Attach(id, 21), resumed = Attach(id, 22, false);
  ASSERT_TRUE(table->SetMetadata(me, id, {{"title", "a"}}).ok());
  ASSERT_TRUE(table->AddItems(me, id, {{ChatRole::kUser, "More"}}).ok());
  ASSERT_TRUE(table->Rewind(me, id, 0).ok());
  EXPECT_EQ(watcher->changes, 3);
  EXPECT_EQ(resumed->changes, 0);
  ASSERT_TRUE(table->DeleteSession(me, id).ok());
  EXPECT_TRUE(watcher->gone);
}

TEST_F(WatchTest, KeepsItsEpochAndWritesNothing) {
  const std::string id = NewConversation();
  const auto before = table->GetSession(me, id);
  const auto watcher = Attach(id, 21);
  EXPECT_EQ(watcher->reply().epoch, before->epoch);
  EXPECT_EQ(table->GetSession(me, id)->recorded.seq, before->recorded.seq);
}

TEST_F(WatchTest, NumberIsBounded) {
  const std::string id = NewConversation();
  std::vector<std::shared_ptr<WatchingSink>> watchers;
  for (uint64_t i = 0; i < Listeners::kMaxWatchers; ++i) watchers.push_back(Attach(id, 100 + i));
  EXPECT_FALSE(watchers.back()->taken);
  EXPECT_TRUE(Attach(id, 99)->taken);
  watchers.erase(watchers.begin());  // a closed connection gives its place away
  EXPECT_FALSE(Attach(id, 98)->taken);
}

}  // namespace
}  // namespace ringside
