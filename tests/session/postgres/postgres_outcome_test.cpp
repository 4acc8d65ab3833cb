// Commits whose outcome is unknown: the connection is lost before, while or after the database commits. Each batch is
// written exactly once, and is acknowledged only when it is durable.
#include <gmock/gmock.h>

#include <thread>

#include "tests/session/postgres/postgres_fixture.h"
#include "tests/session/postgres/postgres_proxy.h"

namespace ringside {
namespace {

using namespace std::chrono_literals;
using testing::ElementsAre;
using testing::IsEmpty;

const std::string kMarked(PostgresProxy::kMark);

class PostgresOutcomeTest : public PostgresTest {
 protected:
  void SetUp() override {
    PostgresTest::SetUp();
    if (server_ == nullptr) return;
    proxy_ = std::make_unique<PostgresProxy>(server_->socket());
    SharedStoreOptions options = Options("a");
    options.url = server_->Url(database_, "ringside", proxy_->folder());
    options.stop = stop_.get_token();
    journal_ = MustOpen(options);
    ASSERT_NE(journal_, nullptr);
    ASSERT_TRUE(Write(*journal_, Entry("conv_1", {"first"}, true)).ok());
  }

  void LosesNothing(PostgresProxy::Loss loss) {
    proxy_->LoseNext(loss);
    EXPECT_TRUE(Write(*journal_, Entry("conv_1", {kMarked})).ok());
    EXPECT_TRUE(proxy_->lost());
    EXPECT_TRUE(Write(*journal_, Entry("conv_1", {"last"})).ok());
    EXPECT_THAT(Payloads(*journal_, "conv_1"), ElementsAre("first", kMarked, "last"));
  }

  /// Process numbers of the server's backends that wait for `event`.
  std::vector<int64_t> Backends(const std::string& event) {
    return server_->Numbers("postgres", "select pid::int8 from pg_stat_activity where datname = '" + database_ +
                                            "' and application_name = 'ringside a' and wait_event = '" + event + "'");
  }
  void Terminate(int64_t backend) {
    server_->Numbers("postgres", "select pg_terminate_backend(" + std::to_string(backend) + ")::int::int8");
  }

  std::stop_source stop_;
  std::unique_ptr<PostgresProxy> proxy_;
  std::unique_ptr<Journal> journal_;
};

TEST_F(PostgresOutcomeTest, ARequestThatNeverArrivedIsSentAgain) { LosesNothing(PostgresProxy::Loss::kRequest); }

TEST_F(PostgresOutcomeTest, ABatchWhoseReplyWasLostIsNotWrittenAgain) { LosesNothing(PostgresProxy::Loss::kReply); }

TEST_F(PostgresOutcomeTest, ABatchThatOnlyChangesASummaryIsNotWrittenAgain) {
  proxy_->LoseNext(PostgresProxy::Loss::kReply);
  JournalEntry entry = Labelled("conv_1", {}, {.owner = "ada"}, false);
  entry.summary = kMarked;
  EXPECT_TRUE(Write(*journal_, entry).ok());
  EXPECT_THAT(server_->Numbers(database_, "select batch from server"), ElementsAre(2));
}

TEST_F(PostgresOutcomeTest, ARequestThatArrivesAfterItWasSentAgainChangesNothing) {
  LosesNothing(PostgresProxy::Loss::kDelayed);
  proxy_->Arrive();
  EXPECT_TRUE(Write(*journal_, Entry("conv_1", {"after"})).ok());
  EXPECT_THAT(Payloads(*journal_, "conv_1"), ElementsAre("first", kMarked, "last", "after"));
  EXPECT_TRUE(journal_->healthy());
}

TEST_F(PostgresOutcomeTest, ABackendTerminatedBeforeItsCommitIsReplaced) {
  const StopSignal never;
  const PostgresTarget target(*PostgresTarget::Parse(server_->Url(database_), "test"));
  const auto deadline = std::chrono::steady_clock::now() + 60s;
  auto other = PostgresConnection::Open(target, never, 60s, deadline);
  ASSERT_TRUE(other.ok());
  const PostgresStatement lock = {.sql = "select key from session for update", .columns = {PostgresType::kText}};
  ASSERT_TRUE((*other)->RunAll({{.sql = "begin"}, lock}, deadline).ok());
  auto told = Append(*journal_, Entry("conv_1", {"second"}));
  while (Backends("transactionid").empty()) std::this_thread::sleep_for(10ms);
  Terminate(Backends("transactionid")[0]);
  ASSERT_TRUE((*other)->Run({.sql = "rollback"}, deadline).ok());
  EXPECT_TRUE(told.get().status.ok());
  EXPECT_THAT(Payloads(*journal_, "conv_1"), ElementsAre("first", "second"));
}

// The database commits in its own log, and then waits for a standby. A backend that is terminated meanwhile leaves a
// commit that a failover would lose: it is acknowledged only when the standby has it.
TEST_F(PostgresOutcomeTest, ACommitWithoutItsStandbyIsNotAcknowledged) {
  server_->Execute("postgres", "alter system set synchronous_standby_names = 'missing'");
  server_->Execute("postgres", "select from pg_reload_conf()");
  std::vector<std::string> written = {"first"};
  std::future<Told> told;
  std::vector<int64_t> waiting;
  while (waiting.empty()) {  // the new setting takes effect a little later
    written.push_back("record");
    told = Append(*journal_, Entry("conv_1", {"record"}));
    while (waiting.empty() && told.wait_for(10ms) == std::future_status::timeout) waiting = Backends("SyncRep");
  }
  Terminate(waiting[0]);
  while (Backends("SyncRep").empty() || Backends("SyncRep") == waiting) std::this_thread::sleep_for(10ms);
  EXPECT_EQ(told.wait_for(0s), std::future_status::timeout);
  EXPECT_EQ(server_->Numbers(database_, "select max(seq) from record")[0], std::ssize(written))
      << "it is committed there";
  server_->Execute("postgres", "alter system reset synchronous_standby_names");
  server_->Execute("postgres", "select from pg_reload_conf()");
  EXPECT_TRUE(told.get().status.ok());
  EXPECT_EQ(Payloads(*journal_, "conv_1"), written);
}

TEST_F(PostgresOutcomeTest, WaitsForADatabaseThatIsAway) {
  proxy_->SetAway(true);
  auto told = Append(*journal_, Entry("conv_1", {"second"}));
  auto created = Append(*journal_, Entry("conv_2", {"other"}, true));
  EXPECT_EQ(told.wait_for(300ms), std::future_status::timeout);
  EXPECT_TRUE(journal_->healthy());
  proxy_->SetAway(false);
  EXPECT_TRUE(told.get().status.ok());
  EXPECT_TRUE(created.get().status.ok());
  EXPECT_THAT(Payloads(*journal_, "conv_1"), ElementsAre("first", "second"));
  EXPECT_THAT(Payloads(*journal_, "conv_2"), ElementsAre("other"));
}

TEST_F(PostgresOutcomeTest, AStopEndsTheWait) {
  proxy_->SetAway(true);
  auto told = Append(*journal_, Entry("conv_1", {"second"}));
  EXPECT_EQ(told.wait_for(50ms), std::future_status::timeout);
  stop_.request_stop();
  EXPECT_EQ(told.get().status.code(), StatusCode::kIo);
  EXPECT_FALSE(journal_->healthy());
  EXPECT_FALSE(journal_->lost());
}

TEST_F(PostgresOutcomeTest, LookUpsReportADatabaseThatIsAway) {
  proxy_->SetAway(true);
  stop_.request_stop();  // instead of waiting for some seconds
  const auto found = journal_->shared()->Find("conv_1", std::nullopt);
  EXPECT_EQ(found.status().code(), StatusCode::kUnavailable);
  EXPECT_EQ(found.status().reason(), "storage_failed");
  EXPECT_EQ(journal_->Read("conv_1").status().code(), StatusCode::kUnavailable);
  EXPECT_EQ(journal_->shared()->Claim("conv_1").code(), StatusCode::kUnavailable);
}

TEST_F(PostgresOutcomeTest, LookUpsSurviveLostConnections) {
  EXPECT_THAT(Payloads(*journal_, "conv_1"), ElementsAre("first"));
  proxy_->SetAway(true);  // the idle connections are lost
  proxy_->SetAway(false);
  EXPECT_THAT(Payloads(*journal_, "conv_1"), ElementsAre("first"));
}

// A batch that the database refuses for good is not repeated for ever.
TEST_F(PostgresOutcomeTest, ARefusedBatchStopsTheJournal) {
  server_->Execute(database_, "alter table record add check (octet_length(value) < 100)");
  EXPECT_EQ(Write(*journal_, Entry("conv_1", {std::string(200, 'x')})).code(), StatusCode::kIo);
  EXPECT_FALSE(journal_->healthy());
  EXPECT_THAT(Payloads(*journal_, "conv_1"), ElementsAre("first"));
}

}  // namespace
}  // namespace ringside
