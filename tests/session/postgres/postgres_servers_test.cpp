// Several servers over one store: a session is written by one of them only, and moves when it is released, when its
// server ends or vanishes, and never because a clock is wrong.
#include <gmock/gmock.h>

#include <condition_variable>
#include <mutex>
#include <thread>

#include "session/journal/journal_format.h"
#include "tests/session/postgres/postgres_fixture.h"

namespace ringside {
namespace {

using namespace std::chrono_literals;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::UnorderedElementsAre;

class PostgresServersTest : public PostgresPairTest {
 protected:
  void SetUp() override {
    PostgresPairTest::SetUp();
    if (server_ == nullptr || HasFatalFailure()) return;
    ASSERT_TRUE(Write(*a_, Labelled("conv_1", {"of a"}, {.owner = "ada", .conversation = true})).ok());
  }
};

TEST_F(PostgresServersTest, ReadsNeedNoClaim) {
  EXPECT_THAT(Payloads(*b_, "conv_1"), ElementsAre("of a"));
  EXPECT_EQ(b_->Summary("conv_1")->summary, "summary of conv_1");
}

TEST_F(PostgresServersTest, ASessionOfALiveServerIsLocked) {
  const Status refused = b_->Claim("conv_1");
  EXPECT_EQ(refused.code(), StatusCode::kBusy);
  EXPECT_EQ(refused.reason(), "conversation_locked");
  EXPECT_THAT(refused.message(), HasSubstr("Another server is using this conversation"));
  EXPECT_EQ(Write(*b_, Entry("conv_1", {"of b"})).code(), StatusCode::kNotFound);
  EXPECT_TRUE(a_->Claim("conv_1").ok()) << "it has it already";
  EXPECT_EQ(b_->Claim("conv_2").code(), StatusCode::kNotFound);
}

TEST_F(PostgresServersTest, AReleasedSessionContinuesElsewhere) {
  ASSERT_TRUE(Release(*a_, "conv_1").ok());
  EXPECT_EQ(Write(*a_, Entry("conv_1", {"late"})).code(), StatusCode::kNotFound);
  ASSERT_TRUE(b_->Claim("conv_1").ok());
  ASSERT_TRUE(Write(*b_, Entry("conv_1", {"of b"})).ok());
  EXPECT_EQ(a_->Claim("conv_1").code(), StatusCode::kBusy);
  EXPECT_THAT(Payloads(*a_, "conv_1"), ElementsAre("of a", "of b"));
}

TEST_F(PostgresServersTest, RecordsAndTheirReleaseAreOneBatch) {
  auto written = Append(*a_, Entry("conv_1", {"last of a"}));
  ASSERT_TRUE(Release(*a_, "conv_1").ok());
  ASSERT_TRUE(written.get().status.ok());
  ASSERT_TRUE(b_->Claim("conv_1").ok());
  EXPECT_THAT(Payloads(*b_, "conv_1"), ElementsAre("of a", "last of a"));
}

TEST_F(PostgresServersTest, AServerIsAskedToRelease) {
  std::mutex mutex;
  std::condition_variable came;
  std::vector<std::string> asked;
  a_->shared()->OnAskedFor([&](const std::string& session) {
    std::lock_guard lock(mutex);
    asked.push_back(session);
    came.notify_all();
  });
  std::unique_lock lock(mutex);
  do {
    lock.unlock();  // a request before it listens is lost, and is made again
    ASSERT_TRUE(b_->shared()->AskFor("conv_1").ok());
    lock.lock();
  } while (!came.wait_for(lock, 100ms, [&] { return !asked.empty(); }));
  EXPECT_EQ(asked[0], "conv_1");
  lock.unlock();
  a_->shared()->OnAskedFor(nullptr);
}

TEST_F(PostgresServersTest, AnOrderlyEndFreesItsSessions) {
  a_ = nullptr;
  ASSERT_TRUE(b_->Claim("conv_1").ok());
  ASSERT_TRUE(Write(*b_, Entry("conv_1", {"of b"})).ok());
  EXPECT_THAT(Payloads(*b_, "conv_1"), ElementsAre("of a", "of b"));
}

TEST_F(PostgresServersTest, ASessionOfAVanishedServerIsTakenOver) {
  EndLease("a");
  ASSERT_TRUE(b_->Claim("conv_1").ok());
  ASSERT_TRUE(Write(*b_, Entry("conv_1", {"of b"})).ok());
  EXPECT_THAT(Payloads(*b_, "conv_1"), ElementsAre("of a", "of b"));
}

// The server was paused: it does not know that its lease ended, and its clock may be wrong.
TEST_F(PostgresServersTest, APausedServerIsFenced) {
  ASSERT_TRUE(Write(*a_, Entry("conv_2", {"of a"}, true)).ok());
  EndLease("a");
  ASSERT_TRUE(b_->Claim("conv_1").ok());
  EXPECT_TRUE(a_->shared()->HoldsLease()) << "by its own clock";
  const Status refused = Write(*a_, Entry("conv_1", {"of a, too late"}));
  EXPECT_EQ(refused.code(), StatusCode::kIo);
  EXPECT_THAT(refused.message(), HasSubstr("taken over"));
  EXPECT_TRUE(a_->shared()->Fenced());
  EXPECT_FALSE(a_->shared()->HoldsLease());
  EXPECT_FALSE(a_->healthy());
  EXPECT_EQ(a_->Claim("conv_2").code(), StatusCode::kIo);
  EXPECT_EQ(Write(*a_, Entry("conv_3", {"new"}, true)).code(), StatusCode::kIo);
  a_ = nullptr;  // and does not end its successor's lease
  ASSERT_TRUE(Write(*b_, Entry("conv_1", {"of b"})).ok());
  EXPECT_THAT(Payloads(*b_, "conv_1"), ElementsAre("of a", "of b"));
}

TEST_F(PostgresServersTest, ARestartAfterACrashWaitsForNoLease) {
  SharedStoreOptions again = Options("a");
  again.predecessor = a_->shared()->incarnation();
  const auto restarted = MustOpen(again);  // the lease of an hour has not ended
  ASSERT_NE(restarted, nullptr);
  ASSERT_TRUE(restarted->Claim("conv_1").ok());
  EXPECT_EQ(Write(*a_, Entry("conv_1", {"of the predecessor"})).code(), StatusCode::kIo);
  ASSERT_TRUE(Write(*restarted, Entry("conv_1", {"of the successor"})).ok());
  EXPECT_THAT(Payloads(*b_, "conv_1"), ElementsAre("of a", "of the successor"));
}

TEST_F(PostgresServersTest, AnotherIncarnationIsNoPredecessor) {
  SharedStoreOptions again = Options("a");
  again.lease_s = 0.5;
  again.predecessor = b_->shared()->incarnation();
  server_->Execute(database_, "update server set alive_until = now() + interval '0.2 seconds' where id = 'a'");
  ASSERT_NE(MustOpen(again), nullptr) << "after the lease";
  server_->Execute(database_,
                   "update server set alive_until = now() + interval '1 hour', ended = false where id = 'b'");
  again.server = "b";
  again.predecessor = b_->shared()->incarnation() + 1000;
  std::stop_source stop;
  stop.request_stop();
  again.stop = stop.get_token();
  EXPECT_EQ(TryOpen(again).status().code(), StatusCode::kUnavailable) << "waits for the lease";
}

TEST_F(PostgresServersTest, AFencedServerCreatesNothing) {
  EndLease("a");
  ASSERT_TRUE(b_->Claim("conv_1").ok());
  EXPECT_EQ(Write(*a_, Entry("conv_3", {"new"}, true)).code(), StatusCode::kIo);
  EXPECT_EQ(b_->Last("conv_3").status().code(), StatusCode::kNotFound);
}

/// A clock an hour ahead.
class FastClock final : public Clock {
 public:
  int64_t MonotonicNs() const override { return SystemClock::Instance().MonotonicNs(); }
  double WallSeconds() const override { return SystemClock::Instance().WallSeconds() + 2 * 3600; }
};

TEST_F(PostgresServersTest, AClockThatIsAheadTakesNothingOver) {
  const FastClock fast;
  SharedStoreOptions options = Options("c");
  options.clock = &fast;
  const auto c = MustOpen(options);
  ASSERT_NE(c, nullptr);
  EXPECT_EQ(c->Claim("conv_1").code(), StatusCode::kBusy);
  EXPECT_TRUE(Write(*a_, Entry("conv_1", {"still of a"})).ok());
}

// Several sessions change in one batch. One of them is another server's, as after a fault of this program.
TEST_F(PostgresServersTest, ABatchWithAForeignSessionFailsAsAWhole) {
  ASSERT_TRUE(Write(*b_, Entry("conv_b", {"of b"}, true)).ok());
  server_->Execute(database_,
                   "update session set server = 'b', incarnation = (select incarnation from server where id "
                   "= 'b') where key = 'conv_1'");
  JournalEntry mine = Entry("conv_2", {"of a"}, true);
  ASSERT_TRUE(Write(*a_, mine).ok());
  auto log = OpenPostgresLog(Options("c"), std::nullopt, {});
  ASSERT_TRUE(log.ok());
  ASSERT_TRUE((*log)->shared()->Reserve({"conv_c"})->empty());
  const auto put = [](const std::string& session) {
    return std::vector<RowChange>{
        {RowChange::Kind::kPut, journal_format::RecordKey(session, 2), "stolen record of enough bytes"},
        {RowChange::Kind::kPut, journal_format::HeadKey(session), "head"}};
  };
  std::vector<RowChange> both = put("conv_c");
  for (RowChange& change : put("conv_b")) both.push_back(std::move(change));
  EXPECT_EQ((*log)->Commit(both).code(), StatusCode::kIo);
  EXPECT_THAT(Payloads(*b_, "conv_b"), ElementsAre("of b"));
  EXPECT_EQ(b_->Last("conv_c").status().code(), StatusCode::kNotFound);
  EXPECT_TRUE((*log)->Commit(put("conv_c")).ok()) << "the number of the batch was not used";
  // the same through a journal
  auto bad = Append(*a_, Entry("conv_1", {"stolen"}));
  EXPECT_EQ(bad.get().status.code(), StatusCode::kIo);
  EXPECT_THAT(Payloads(*b_, "conv_1"), ElementsAre("of a"));
}

TEST_F(PostgresServersTest, RecordsAloneNeedTheirSession) {
  auto log = OpenPostgresLog(Options("c"), std::nullopt, {});
  ASSERT_TRUE(log.ok());
  const std::vector<RowChange> record = {
      {RowChange::Kind::kPut, journal_format::RecordKey("conv_1", 9), "stolen record of enough bytes"}};
  EXPECT_EQ((*log)->Commit(record).code(), StatusCode::kIo);
  EXPECT_THAT(Payloads(*a_, "conv_1"), ElementsAre("of a"));
}

TEST_F(PostgresServersTest, ANameIsCreatedOnce) {
  EXPECT_EQ(Write(*b_, Entry("conv_1", {"of b"}, true)).code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(*b_->shared()->Reserve({"conv_1", "conv_new", "conv_new"}), ElementsAre("conv_1"));
  EXPECT_EQ(Write(*a_, Entry("conv_new", {"of a"}, true)).code(), StatusCode::kInvalidArgument);
  EXPECT_TRUE(Write(*b_, Entry("conv_new", {"of b"}, true)).ok());
  EXPECT_EQ(a_->shared()->Find("conv_new", std::nullopt)->server, "b");
}

TEST_F(PostgresServersTest, AReservedNameIsInvisibleAndEndsWithItsServer) {
  ASSERT_TRUE(a_->shared()->Reserve({"conv_new"})->empty());
  EXPECT_EQ(b_->shared()->Find("conv_new", std::nullopt).status().code(), StatusCode::kNotFound);
  EXPECT_EQ(b_->Last("conv_new").status().code(), StatusCode::kNotFound);
  EXPECT_EQ(b_->Claim("conv_new").code(), StatusCode::kNotFound);
  a_ = nullptr;
  EXPECT_THAT(server_->Numbers(database_, "select count(*) from session where head is null"), ElementsAre(0));
  EXPECT_TRUE(Write(*b_, Entry("conv_new", {"of b"}, true)).ok());
}

TEST_F(PostgresServersTest, ASecondProcessOfANameIsRefused) {
  SharedStoreOptions options = Options("a");
  server_->Execute(database_, "update server set alive_until = now() + interval '0.2 second' where id = 'a'");
  std::thread renews([&] {
    for (int i = 0; i < 50; ++i) {
      server_->Execute(database_, "update server set alive_until = greatest(alive_until, now() + interval '1 second')");
      std::this_thread::sleep_for(20ms);
    }
  });
  const auto second = TryOpen(options);
  renews.join();
  EXPECT_EQ(second.status().code(), StatusCode::kBusy);
  EXPECT_THAT(second.status().message(), HasSubstr("server a"));
  EXPECT_TRUE(Write(*a_, Entry("conv_1", {"still of a"})).ok());
}

TEST_F(PostgresServersTest, ARestartAfterACrashWaitsForTheLeaseAndHasItsSessions) {
  server_->Execute(database_, "update server set alive_until = now() + interval '0.3 second' where id = 'a'");
  const auto restarted = MustOpen("a");  // the first one is, in effect, a paused process
  ASSERT_NE(restarted, nullptr);
  ASSERT_TRUE(restarted->Claim("conv_1").ok());
  ASSERT_TRUE(Write(*restarted, Entry("conv_1", {"of the next"})).ok());
  EXPECT_EQ(Write(*a_, Entry("conv_1", {"too late"})).code(), StatusCode::kIo);
  EXPECT_TRUE(a_->shared()->Fenced());
  EXPECT_THAT(Payloads(*b_, "conv_1"), ElementsAre("of a", "of the next"));
}

TEST_F(PostgresServersTest, AnErasedSessionIsGoneForAll) {
  ASSERT_TRUE(Erase(*a_, "conv_1").status.ok());
  EXPECT_EQ(b_->Last("conv_1").status().code(), StatusCode::kNotFound);
  EXPECT_EQ(b_->Claim("conv_1").code(), StatusCode::kNotFound);
  EXPECT_THAT(server_->Numbers(database_, "select count(*) from record"), ElementsAre(0));
  EXPECT_TRUE(Write(*b_, Entry("conv_1", {"of b"}, true)).ok()) << "the name is free";
}

// Claims of one session by many: one is the owner.
TEST_F(PostgresServersTest, ConcurrentClaimsHaveOneWinner) {
  ASSERT_TRUE(Release(*a_, "conv_1").ok());
  std::vector<std::unique_ptr<Journal>> servers;
  for (const char* name : {"c", "d", "e"}) servers.push_back(MustOpen(name));
  servers.push_back(std::move(b_));
  std::vector<int> won(servers.size());
  std::vector<std::thread> threads;
  for (size_t i = 0; i < servers.size(); ++i) {
    threads.emplace_back([&, i] { won[i] = servers[i]->Claim("conv_1").ok() ? 1 : 0; });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_THAT(won, UnorderedElementsAre(0, 0, 0, 1));
}

}  // namespace
}  // namespace ringside
