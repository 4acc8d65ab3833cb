// A server's lease, and the uptime of a store: by the database's clock, whose jumps end no lease and age nothing.
#include <gmock/gmock.h>

#include <thread>

#include "tests/session/postgres/postgres_fixture.h"

namespace ringside {
namespace {

using namespace std::chrono_literals;
using testing::ElementsAre;

class PostgresLeaseTest : public PostgresTest {
 protected:
  /// Repeats a question until its answer is `wanted`.
  void Await(const std::string& sql, int64_t wanted) {
    while (server_->Numbers(database_, sql) != std::vector{wanted}) std::this_thread::sleep_for(20ms);
  }
  /// Opens a server that renews its lease every 100 ms.
  std::unique_ptr<Journal> OpenQuick(const std::string& name) {
    SharedStoreOptions options = Options(name);
    options.lease_s = 0.5;
    return MustOpen(options);
  }
  /// Returns once the servers have renewed their leases again.
  void AwaitBeat() {
    const int64_t before = server_->Numbers(database_, "select uptime_ms from cell")[0];
    Await("select (uptime_ms > " + std::to_string(before) + ")::int::int8 from cell", 1);
  }
};

TEST_F(PostgresLeaseTest, IsHeldUntilItsEndByTheSteadyClock) {
  ManualClock clock;
  clock.AdvanceMs(1'000'000);
  SharedStoreOptions options = Options("a");
  options.clock = &clock;
  options.lease_s = 1000;
  const auto journal = MustOpen(options);
  ASSERT_NE(journal, nullptr);
  EXPECT_TRUE(journal->shared()->HoldsLease());
  clock.AdvanceMs(989'000);
  EXPECT_TRUE(journal->shared()->HoldsLease());
  clock.AdvanceMs(10'000);
  EXPECT_FALSE(journal->shared()->HoldsLease());
  EXPECT_FALSE(journal->shared()->Fenced());
}

TEST_F(PostgresLeaseTest, IsRenewed) {
  const auto journal = OpenQuick("a");
  ASSERT_NE(journal, nullptr);
  server_->Execute(database_, "update server set alive_until = now()");
  Await("select (alive_until > now())::int::int8 from server", 1);
  EXPECT_TRUE(journal->shared()->HoldsLease());
}

TEST_F(PostgresLeaseTest, AVanishedServerIsSweptWithoutARequest) {
  const auto gone = MustOpen("gone");
  ASSERT_TRUE(gone->shared()->Reserve({"conv_1"})->empty());
  const auto journal = OpenQuick("a");
  ASSERT_TRUE(gone != nullptr && journal != nullptr);
  EndLease("gone");
  Await("select ended::int::int8 from server where id = 'gone'", 1);
  Await("select count(*) from session", 0);  // its reserved name
}

TEST_F(PostgresLeaseTest, AServerThatWasSweptFindsOutByItself) {
  const auto journal = OpenQuick("a");
  ASSERT_NE(journal, nullptr);
  server_->Execute(database_, "update server set incarnation = incarnation + 1000");
  while (!journal->shared()->Fenced()) std::this_thread::sleep_for(10ms);
  EXPECT_FALSE(journal->shared()->HoldsLease());
  EXPECT_EQ(Write(*journal, Entry("conv_1", {"x"}, true)).code(), StatusCode::kIo);
}

// As after a failover that took longer than a lease: the leases of all servers have ended, and none was renewed.
TEST_F(PostgresLeaseTest, NoServerIsTakenOverRightAfterTheDatabaseWasAway) {
  const auto paused = MustOpen("paused");
  ASSERT_NE(paused, nullptr);
  ASSERT_TRUE(Write(*paused, Entry("conv_1", {"x"}, true)).ok());
  EndLease("paused");
  server_->Execute(database_, "update cell set noted_at = now() - interval '1 day'");
  const auto journal = MustOpen("a");  // with leases of an hour
  ASSERT_NE(journal, nullptr);
  EXPECT_EQ(journal->Claim("conv_1").code(), StatusCode::kBusy);
  EXPECT_TRUE(journal->shared()->Find("conv_1", std::nullopt)->live);
  server_->Execute(database_, "update cell set grace_until = now()");
  EXPECT_TRUE(journal->Claim("conv_1").ok());
}

TEST_F(PostgresLeaseTest, JumpsOfTheClockDoNotAdvanceTheUptime) {
  const auto journal = OpenQuick("a");
  ASSERT_NE(journal, nullptr);
  AwaitBeat();
  server_->Execute(database_, "update cell set noted_at = noted_at - interval '100 days'");  // the clock jumps ahead
  AwaitBeat();
  server_->Execute(database_, "update cell set noted_at = noted_at + interval '100 days'");  // and back
  AwaitBeat();
  const int64_t uptime_ms = server_->Numbers(database_, "select uptime_ms from cell")[0];
  EXPECT_LT(uptime_ms, 3'600'000);
  EXPECT_LT(journal->UptimeSeconds(), 3600);
}

TEST_F(PostgresLeaseTest, TheUptimeContinuesAndNeverGoesBack) {
  server_ = PostgresServer::Get();
  auto journal = OpenQuick("a");
  ASSERT_NE(journal, nullptr);
  double last_s = 0;
  for (int i = 0; i < 3; ++i) {
    AwaitBeat();
    EXPECT_GE(journal->UptimeSeconds(), last_s);
    last_s = journal->UptimeSeconds();
  }
  EXPECT_GT(last_s, 0);
  journal = nullptr;
  const double stored_s = 1e-3 * static_cast<double>(server_->Numbers(database_, "select uptime_ms from cell")[0]);
  server_->Execute(database_, "update cell set noted_at = now() - interval '1 day'");  // a day without a server
  journal = MustOpen("b");
  EXPECT_GE(journal->UptimeSeconds(), stored_s);
  EXPECT_LT(journal->UptimeSeconds(), 86'000);
}

}  // namespace
}  // namespace ringside
