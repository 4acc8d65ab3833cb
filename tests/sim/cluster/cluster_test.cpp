// The simulation of many servers conserves conversations, keeps within memory, and has the outcomes that
// docs/SCALING.md relies on, on a few servers.
#include "tools/sim/cluster/cluster.h"

#include <gtest/gtest.h>

namespace ringside {
namespace {

class ClusterTest : public testing::Test {
 protected:
  ClusterTest() { few_.servers = 16, few_.conversations_per_server = 300, few_.warm_up_s = 600, few_.measured_s = 300; }
  static ClusterReport Run(const ClusterOptions& options) {
    static const auto cost = CostModel::Read(CostFile("llama-3-8b.h200"));
    EXPECT_TRUE(cost.ok()) << cost.status().ToString();
    return cost.ok() ? SimulateCluster(*cost, options) : ClusterReport{};
  }
  static PhaseReport RunOne(const ClusterOptions& options) { return Run(options).phases.front(); }
  /// Servers whose stores are private.
  void MakePrivate() { few_.store = {.cell_servers = 1, .least_s = 0.001, .most_s = 0.003, .commits_per_s = 1e9}; }
  /// Many conversations; a third of the servers is lost, and returns.
  void LoseZone() {
    few_.servers = 48, few_.conversations_per_server = 1000, few_.measured_s = 360;
    few_.phase_ends_s = {60, 240}, few_.events.zone_lost_s = 60, few_.events.zone_back_s = 240;
  }
  ClusterOptions few_;
};

TEST_F(ClusterTest, SameSeedGivesTheSameFigures) {
  const ClusterReport report = Run(few_);
  EXPECT_EQ(Run(few_), report);
  EXPECT_GT(report.phases[0].turns, 20'000);
  few_.seed = 8;
  EXPECT_NE(Run(few_), report);
}

TEST_F(ClusterTest, UndisturbedClusterRefusesAndLosesNothing) {
  const PhaseReport r = RunOne(few_);
  EXPECT_EQ(r.refused + r.gave_up + r.cut + r.not_found + r.claimed, 0);
  EXPECT_EQ(r.recomputed, 0);
  EXPECT_LT(r.first_p99, 200);
  EXPECT_EQ(r.first_p99, r.asked_p99);
}

// Every kind of event at once: no conversation and no question is lost or counted twice, and no server holds more than
// its memory.
TEST_F(ClusterTest, ConversationsAndQuestionsAreConserved) {
  few_.conversations_per_server = 1200, few_.wait_limit_s = 0.2, few_.phase_ends_s = {100, 200};
  few_.people.key_alpha = 1.2, few_.people.key_most = 50, few_.people.burst_every_s = 70;
  few_.server.small_share = 0.25;
  few_.events = {.failure_every_s = 40,
                 .upgrade_every_s = 35,
                 .zone_lost_s = 60,
                 .zone_back_s = 150,
                 .database_lost_s = 200,
                 .added_s = 220,
                 .forgets_routes = true};
  for (const bool websockets : {false, true}) {
    few_.proxy.websockets = websockets;
    const ClusterReport report = Run(few_);
    ASSERT_EQ(report.phases.size(), 3u);
    EXPECT_EQ(report.conversations, 16 * 1200);
    EXPECT_EQ(report.homed, report.with_home);
    EXPECT_GT(report.with_home, 16 * 1000);
    EXPECT_EQ(report.asked, report.answered + report.gave_up + report.not_found + report.pending);
    EXPECT_EQ(report.open, report.connected);
    EXPECT_GT(report.open, websockets ? 10'000 : 100);
    EXPECT_LE(report.fullest_memory, 1 + 1e-9);
    int64_t cut = 0, claimed = 0, refused = 0;
    for (const PhaseReport& r : report.phases) {
      EXPECT_EQ(r.fresh + r.from_slot + r.from_host + r.from_disk + r.recomputed, r.turns);
      cut += r.cut, claimed += r.claimed, refused += r.refused;
    }
    EXPECT_GT(cut, 0);
    EXPECT_GT(claimed, 1000);
    EXPECT_GT(refused, 1000);
    EXPECT_GT(report.gave_up, 0);
    EXPECT_GT(report.not_found, 0);
  }
}

TEST_F(ClusterTest, LimitHoldsTheWaitOfAdmittedTurnsWhenAZoneIsLost) {
  LoseZone();
  const ClusterReport open = Run(few_);
  few_.wait_limit_s = 0.15;
  const ClusterReport limited = Run(few_);
  const PhaseReport &normal = open.phases[0], &lost = open.phases[1], &shed = limited.phases[1];
  EXPECT_GT(lost.first_p99, 50 * normal.first_p99) << "without a limit everyone waits";
  EXPECT_LT(shed.first_p99, 2.2 * normal.first_p99);
  EXPECT_LE(limited.longest_wait_s, few_.wait_limit_s / (1 - few_.misjudgement));
  EXPECT_GT(open.longest_wait_s, 5);
  EXPECT_GT(shed.refused, 1000);
  EXPECT_LT(shed.gave_up, shed.turns / 50);
  EXPECT_GT(shed.turns, lost.turns * 9 / 10) << "the work that is done is as much";
  EXPECT_LT(limited.phases[2].first_p99, 2 * normal.first_p99) << "it recovers";
}

TEST_F(ClusterTest, AdviceReducesRetries) {
  LoseZone();
  few_.conversations_per_server = 1200, few_.wait_limit_s = 0.15;
  const PhaseReport advised = Run(few_).phases[1];
  few_.people.honor_retry_after = false;
  const PhaseReport blind = Run(few_).phases[1];
  EXPECT_LT(advised.gave_up, blind.gave_up * 8 / 10);
}

TEST_F(ClusterTest, CrashedServersConversationsWaitForTheLease) {
  few_.events.failure_every_s = 60;
  const PhaseReport crash = RunOne(few_);
  EXPECT_GT(crash.claimed, 500);
  EXPECT_GT(crash.cut, 0);
  EXPECT_EQ(crash.refused + crash.not_found, 0);
  EXPECT_GT(crash.first_p999, 3e3);
  EXPECT_LT(crash.first_p999, 11e3);
  few_.store.lease_s = 2;
  EXPECT_LT(RunOne(few_).first_p999, 5e3);
}

TEST_F(ClusterTest, DrainedServerReleasesAtOnce) {
  few_.events.upgrade_every_s = 60;
  const PhaseReport drain = RunOne(few_);
  EXPECT_GT(drain.claimed, 500);
  EXPECT_EQ(drain.cut + drain.refused + drain.not_found, 0);
  EXPECT_LT(drain.first_p999, 1e3);
}

TEST_F(ClusterTest, PrivateStoreWaitsForItsServer) {
  MakePrivate();
  few_.events.failure_every_s = 60;
  const PhaseReport waits = RunOne(few_);
  EXPECT_EQ(waits.not_found, 0);
  EXPECT_GT(waits.refused, 500);
  EXPECT_GT(waits.asked_p999, 60e3) << "for the restart";
}

TEST_F(ClusterTest, LostRoutesLosePrivateConversationsOnlyIfServersWereAdded) {
  MakePrivate();
  few_.events.added_s = 0, few_.events.added_share = 0.125;
  EXPECT_EQ(RunOne(few_).not_found, 0);
  few_.events.forgets_routes = true;
  EXPECT_GT(RunOne(few_).not_found, 200);
}

TEST_F(ClusterTest, DatabaseLimitsTheCell) {
  few_.conversations_per_server = 700;
  const PhaseReport enough = RunOne(few_);
  EXPECT_LT(enough.database_share, 0.5);
  few_.store.commits_per_s = 500;  // 16 servers commit 530 per second
  const PhaseReport late = RunOne(few_);
  EXPECT_GT(late.database_share, 0.95);
  EXPECT_GT(late.first_p50, 1000);
  few_.store = {.commits_tokens = true};
  const PhaseReport tokens = RunOne(few_);
  EXPECT_GT(tokens.database_share, enough.database_share + 0.1);
  EXPECT_GT(tokens.first_p50, enough.first_p50 + 5);
}

TEST_F(ClusterTest, FailoverPausesTurnsAndFailsNone) {
  few_.events.database_lost_s = 60, few_.events.database_share = 1, few_.phase_ends_s = {60, 80};
  const ClusterReport report = Run(few_);
  EXPECT_GT(report.phases[1].first_p99, 15e3);
  EXPECT_LT(report.phases[2].first_p99, 500);
  for (const PhaseReport& r : report.phases) EXPECT_EQ(r.refused + r.gave_up + r.cut + r.not_found, 0);
}

TEST_F(ClusterTest, KeyIsOnePointOnTheRing) {
  few_.proxy.bound = 0;
  const double people = RunOne(few_).fullest;
  few_.people.key_alpha = 1.2, few_.people.key_most = 300;
  EXPECT_GT(RunOne(few_).fullest, people + 0.2);
}

TEST_F(ClusterTest, WeightsKeepSmallServersWithinTheirMemory) {
  few_.conversations_per_server = 1000, few_.server.small_share = 0.25;
  const PhaseReport weighted = RunOne(few_);
  few_.proxy.weighted = false;
  const PhaseReport equal = RunOne(few_);
  EXPECT_EQ(weighted.recomputed, 0);
  EXPECT_GT(equal.recomputed, 100);
  EXPECT_GT(equal.fullest, weighted.fullest + 0.2);
}

TEST_F(ClusterTest, RoutesThatAreNotRememberedMoveCaches) {
  few_.conversations_per_server = 700;
  EXPECT_EQ(RunOne(few_).claimed, 0);
  few_.proxy.stick = false;
  EXPECT_GT(RunOne(few_).claimed, 1000);
}

TEST_F(ClusterTest, BurstsAndLongTailsRaiseTheTail) {
  few_.people.tail_sigma = 0;
  const PhaseReport constant = RunOne(few_);
  few_.people.tail_sigma = 1;
  const PhaseReport tail = RunOne(few_);
  EXPECT_GT(tail.first_p999, constant.first_p999);
  few_.people.burst_every_s = 60, few_.people.burst_share = 1, few_.people.burst_s = 1;
  EXPECT_GT(RunOne(few_).first_p99, 5 * tail.first_p99);
}

// A turn that waits for its prompt does not decode yet, so a long queue does not slow the prompts in it.
TEST_F(ClusterTest, QueueDoesNotSlowPrompts) {
  few_.conversations_per_server = 700, few_.server.queue_limit = 1'000'000;
  const PhaseReport calm = RunOne(few_);
  few_.people.burst_every_s = 60, few_.people.burst_share = 1, few_.people.burst_s = 1;
  const PhaseReport burst = RunOne(few_);
  EXPECT_GT(burst.first_p99, 1000);
  const auto per_turn = [](const PhaseReport& r) { return r.prompt_share / static_cast<double>(r.turns); };
  EXPECT_LT(per_turn(burst), 1.3 * per_turn(calm));
}

}  // namespace
}  // namespace ringside
