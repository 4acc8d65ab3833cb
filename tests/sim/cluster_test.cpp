// Hashing moves no more than necessary, and the simulation of many servers has the outcomes that docs/SCALING.md relies
// on, on a few servers.
#include "tools/sim/cluster/cluster.h"

#include <gtest/gtest.h>

#include <map>

#include "tools/sim/cluster/hash_ring.h"

namespace ringside {
namespace {

constexpr auto kAny = [](uint32_t) { return true; };

TEST(HashRing, MembershipChangesMoveOnlyTheirShare) {
  HashRing ring(160);
  ring.Add(0, 20);
  std::map<uint64_t, uint32_t> before;
  std::map<uint32_t, int> keys;
  for (uint64_t key = 0; key < 20'000; ++key) ++keys[before[key] = *ring.Find(HashOf(key), kAny)];
  for (uint32_t server = 0; server < 20; ++server) EXPECT_NEAR(keys[server], 1000, 300) << server;
  ring.Add(20, 22);
  int moved = 0;
  for (const auto& [key, server] : before) {
    const uint32_t now = *ring.Find(HashOf(key), kAny);
    if (now != server) {
      EXPECT_GE(now, 20u);
    }
    moved += now != server;
  }
  EXPECT_NEAR(moved, 20'000 * 2 / 22, 400);
  ring.Remove(2);
  for (const auto& [key, server] : before) {
    const uint32_t now = *ring.Find(HashOf(key), kAny);
    if (server >= 2 && now < 20) {
      EXPECT_EQ(now, server);
    }
    EXPECT_GE(now, 2u);
  }
  EXPECT_EQ(ring.Find(7, [](uint32_t server) { return server == 5; }), 5u);
  EXPECT_EQ(ring.Find(7, [](uint32_t) { return false; }), std::nullopt);
}

class ClusterTest : public testing::Test {
 protected:
  static ClusterReport Run(const ClusterOptions& options) {
    static const auto cost = CostModel::Read(CostFile("llama-3-8b.h200"));
    EXPECT_TRUE(cost.ok()) << cost.status().ToString();
    return cost.ok() ? SimulateCluster(*cost, options) : ClusterReport{};
  }
  ClusterOptions few_{.servers = 20, .conversations_per_server = 300, .warm_up_s = 600, .measured_s = 300};
};

TEST_F(ClusterTest, SameSeedGivesTheSameFigures) {
  const ClusterReport report = Run(few_);
  EXPECT_EQ(Run(few_), report);
  EXPECT_GT(report.turns, 20'000);
  EXPECT_EQ(
      report.fresh + report.from_slot + report.from_host + report.from_disk + report.from_network + report.recomputed,
      report.turns);
  EXPECT_EQ(report.cut + report.refused + report.not_found, 0);
  few_.seed = 8;
  EXPECT_NE(Run(few_), report);
}

// If memory suffices for the mean but not for the fullest server, that server recomputes caches, falls behind, and
// never recovers. With at most 1.1 times the mean everywhere, memory suffices.
TEST_F(ClusterTest, BoundedLoadHandlesWhatPlainHashingDoesNot) {
  few_ = {.servers = 50, .conversations_per_server = 1300, .warm_up_s = 600, .measured_s = 200, .disk_bytes = 0};
  const ClusterReport plain = Run(few_);
  few_.bound = 1.1;
  const ClusterReport bounded = Run(few_);
  EXPECT_GT(plain.fullest, 1.2);
  EXPECT_LE(bounded.fullest, 1.1 + 1e-9);
  EXPECT_GT(plain.refused, 1000);
  EXPECT_EQ(bounded.refused, 0);
  EXPECT_GT(plain.busiest, 0.9);
  EXPECT_LT(bounded.busiest, 0.3);
  EXPECT_LT(bounded.recomputed, plain.recomputed);
  EXPECT_LT(bounded.first_p999, 300);
}

TEST_F(ClusterTest, ConversationWaitsForItsServerOrIsRecomputed) {
  few_.failure_every_s = 30;
  const ClusterReport elsewhere = Run(few_);
  EXPECT_GT(elsewhere.cut, 0);
  EXPECT_GT(elsewhere.not_found, 1000);
  EXPECT_EQ(elsewhere.refused, 0);
  few_.redispatches = false;
  const ClusterReport waits = Run(few_);
  EXPECT_EQ(waits.not_found, 0);
  EXPECT_GT(waits.refused, 1000);
  EXPECT_GT(waits.first_p999, 1e3 * few_.restart_s) << "for the restart";
  few_.redispatches = few_.remembers = few_.shared_store = true;
  const ClusterReport shared = Run(few_);
  EXPECT_EQ(shared.not_found + shared.refused, 0);
  EXPECT_GT(shared.recomputed, 1000);
  EXPECT_LT(shared.first_p999, 1e3);
}

TEST_F(ClusterTest, OrderlyStopSavesWhatTheDiskCanWriteInTime) {
  few_.redispatches = false;
  few_.upgrade_every_s = 30;
  const ClusterReport saved = Run(few_);
  few_.save_s = 0;
  const ClusterReport lost = Run(few_);
  EXPECT_GT(saved.from_disk, 2 * lost.from_disk);
  EXPECT_LT(saved.recomputed_per_s, 0.7 * lost.recomputed_per_s);
}

TEST_F(ClusterTest, NewServersTakeTheirShareUnlessTheProxyIsSticky) {
  few_.added = 2;
  const ClusterReport hashed = Run(few_);
  few_.remembers = true;
  const ClusterReport remembered = Run(few_);
  EXPECT_NEAR(static_cast<double>(hashed.not_found), 6000.0 * 2 / 22, 200) << "of 6,000, as many as moved";
  EXPECT_EQ(remembered.not_found, 0);
  few_.added = 0;
  few_.lost = 1;
  few_.remembers = false;
  EXPECT_NEAR(static_cast<double>(Run(few_).not_found), 300, 120) << "those of the server that is gone";
}

}  // namespace
}  // namespace ringside
