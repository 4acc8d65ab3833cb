// Keys, lengths and retries of the simulated people; caches in their tiers.
#include "tools/sim/cluster/people.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <vector>

namespace ringside {
namespace {

TEST(People, KeysHaveParetoManyConversations) {
  PeopleOptions options{.key_alpha = 1.2, .key_most = 100};
  People people(options, 20'000, 1);
  std::map<uint32_t, int> sizes;
  for (const Conversation& one : people.all()) ++sizes[one.route];
  int most = 0, single = 0;
  for (const auto& [route, size] : sizes) most = std::max(most, size), single += size == 1;
  EXPECT_GT(most, 80);
  EXPECT_LE(most, 100);
  EXPECT_NEAR(single, 0.56 * static_cast<double>(sizes.size()), 0.05 * static_cast<double>(sizes.size()));
  options.key_alpha = 0;
  People alone(options, 1000, 1);
  EXPECT_EQ(alone.all().back().route, 999u);
}

TEST(People, LengthsHaveTheirMeanAndALongTail) {
  const PeopleOptions options;
  People people(options, 1, 1);
  Conversation one{.turn = 1};
  std::vector<float> outputs;
  double sum = 0;
  for (int i = 0; i < 100'000; ++i) {
    people.Ask(one);
    outputs.push_back(one.output);
    sum += one.output;
  }
  std::ranges::sort(outputs);
  EXPECT_NEAR(sum / 1e5, options.output, 2);
  EXPECT_NEAR(outputs[50'000], 39, 2) << "the median of a log-normal with sigma 1";
  EXPECT_GT(outputs[99'900], 500);
  EXPECT_LE(outputs.back(), 2048);
}

TEST(People, RetriesHonorTheAdviceWithJitter) {
  PeopleOptions options{.jitter = 0.5};
  People people(options, 1, 1);
  double least = 1e9, most = 0;
  for (int i = 0; i < 1000; ++i) {
    const double retry_s = people.RetryS(10);
    least = std::min(least, retry_s), most = std::max(most, retry_s);
  }
  EXPECT_GE(least, 10) << "never earlier than advised";
  EXPECT_LT(least, 10.1);
  EXPECT_GT(most, 14.9);
  EXPECT_LE(most, 15);
  options.honor_retry_after = false;
  EXPECT_EQ(people.RetryS(10), 5);
}

TEST(People, NewConversationsKeepTheKeyOfAnApplication) {
  PeopleOptions options{.key_alpha = 0.1, .key_most = 2};  // nearly all keys have two conversations
  People people(options, 1000, 1);
  const Route before = people.route(people.all()[0]);
  for (int i = 0; i < 20; ++i) people.Renew(people.all()[0]);
  EXPECT_EQ(people.route(people.all()[0]).key, before.key);
  options.key_alpha = 0;
  People alone(options, 1, 1);
  const uint64_t key = alone.route(alone.all()[0]).key;
  for (int i = 0; i < 20; ++i) alone.Renew(alone.all()[0]);
  EXPECT_NE(alone.route(alone.all()[0]).key, key);
}

class CacheTiersTest : public testing::Test {
 protected:
  /// Ten conversations of 1,000 tokens in the slots of a server; the last one is the most recently used.
  CacheTiersTest() {
    options_.token_bytes = 1, options_.slot_bytes = 6000, options_.host_bytes = 3000;
    tiers_.Add(1);
    for (uint32_t id = 0; id < 10; ++id) {
      all_[id].tokens = all_[id].cached = 1000;
      all_[id].used_s = id;
      tiers_.Put(id, 0, kSlot);
    }
  }
  ServerOptions options_;
  std::vector<Conversation> all_{10};
  CacheTiers tiers_{options_, all_};
};

TEST_F(CacheTiersTest, LeastRecentlyUsedCachesMoveDown) {
  tiers_.MakeRoom(0, 10);
  EXPECT_EQ(all_[0].tier, kDisk);
  for (uint32_t id = 1; id < 4; ++id) EXPECT_EQ(all_[id].tier, kHost) << id;
  for (uint32_t id = 4; id < 10; ++id) EXPECT_EQ(all_[id].tier, kSlot) << id;
  EXPECT_LE(tiers_.fullest(), 1);
  EXPECT_EQ(tiers_.disk_bytes(), 1000);
}

TEST_F(CacheTiersTest, IdleCachesMoveDown) {
  tiers_.MakeRoom(0, 65);
  EXPECT_EQ(all_[4].tier, kHost) << "idle for a minute";
  EXPECT_EQ(all_[6].tier, kSlot);
}

TEST_F(CacheTiersTest, CrashKeepsDiskCopiesAndOrderlyStopSaves) {
  tiers_.MakeRoom(0, 10);
  tiers_.LoseMemory(0);
  EXPECT_EQ(all_[0].tier, kDisk);
  EXPECT_EQ(all_[9].tier, kGone);
  EXPECT_EQ(all_[9].cached, 0);
  all_[9].cached = 1000;
  tiers_.Put(9, 0, kSlot);
  tiers_.Save(0);
  tiers_.LoseMemory(0);
  EXPECT_EQ(all_[9].tier, kDisk);
  EXPECT_EQ(all_[9].cached, 1000);
}

}  // namespace
}  // namespace ringside
