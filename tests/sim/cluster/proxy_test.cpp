// The proxy routes keys, remembers routes, counts open connections, and avoids servers that are down.
#include "tools/sim/cluster/proxy.h"

#include <gtest/gtest.h>

#include <map>

#include "tools/sim/cluster/hash_ring.h"

namespace ringside {
namespace {

constexpr auto kAny = [](uint32_t, uint32_t) { return true; };

HashRing RingOf(uint32_t begin, uint32_t end) {
  HashRing ring;
  for (uint32_t member = begin; member < end; ++member) ring.Add(member, 160);
  ring.Sort();
  return ring;
}

TEST(HashRing, MembershipChangesMoveOnlyTheirShare) {
  const HashRing before = RingOf(0, 20), after = RingOf(2, 22);
  std::map<uint32_t, int> keys;
  int moved = 0;
  for (uint64_t key = 0; key < 20'000; ++key) {
    const uint32_t was = *before.Find(HashOf(key), kAny), is = *after.Find(HashOf(key), kAny);
    ++keys[was];
    moved += was != is;
    EXPECT_TRUE(was == is || was < 2 || is >= 20) << "a key moved between two members that remain";
  }
  for (uint32_t member = 0; member < 20; ++member) EXPECT_NEAR(keys[member], 1000, 300) << member;
  EXPECT_NEAR(moved, 20'000 * (2. / 20 + 2. / 22), 800);
}

TEST(HashRing, FindSkipsMembersThatDoNotAccept) {
  const HashRing ring = RingOf(0, 20);
  EXPECT_EQ(ring.Find(7, [](uint32_t member, uint32_t) { return member == 5; }), 5u);
  EXPECT_EQ(ring.Find(7, [](uint32_t, uint32_t) { return false; }), std::nullopt);
}

/// A proxy with cells of two servers.
class ProxyTest : public testing::Test {
 protected:
  Proxy Of(uint32_t cells, double second_weight = 1) {
    Proxy proxy(options_);
    for (uint32_t cell = 0; cell < cells; ++cell) proxy.Add(cell, 1), proxy.Add(cell, second_weight);
    proxy.Sort();
    return proxy;
  }
  static Route Key(uint64_t key) { return {.key = HashOf(key + 1000)}; }
  ProxyOptions options_;
};

TEST_F(ProxyTest, AllRequestsOfKeyGoToOneServer) {
  Proxy proxy = Of(8);
  for (uint64_t key = 0; key < 100; ++key) {
    Route route = Key(key);
    const uint32_t server = proxy.Find(route, 0);
    for (int i = 0; i < 50; ++i) proxy.Open(server);  // far above the bound
    EXPECT_EQ(proxy.Find(route, 0), server);
    for (int i = 0; i < 50; ++i) proxy.Close(server);
  }
}

TEST_F(ProxyTest, NewRoutesSkipServersWithTooManyOpenConnections) {
  const auto fullest = [&](double bound) {
    options_.bound = bound;
    Proxy proxy = Of(8);
    for (uint64_t key = 0; key < 4000; ++key) {
      Route route = Key(key);
      proxy.Open(proxy.Find(route, 0));
    }
    int64_t most = 0;
    for (uint32_t server = 0; server < 16; ++server) most = std::max(most, proxy.open(server));
    return most;
  };
  EXPECT_GT(fullest(0), 300) << "plain hashing is uneven";
  EXPECT_LE(fullest(1.1), 275 + 1) << "of a mean of 250";
}

TEST_F(ProxyTest, WeightsDivideTheKeys) {
  options_.bound = 0;
  Proxy proxy = Of(8, 0.5);
  int small = 0;
  for (uint64_t key = 0; key < 9000; ++key) {
    Route route = Key(key);
    small += proxy.Find(route, 0) % 2;
  }
  EXPECT_NEAR(small, 3000, 400);
}

TEST_F(ProxyTest, RouteMovesWithinItsCellWhileItsServerIsDown) {
  Proxy proxy = Of(8);
  Route route = Key(1);
  const uint32_t first = proxy.Find(route, 0), other = first ^ 1;
  proxy.SetUp(first, false, 0);
  EXPECT_EQ(proxy.Find(route, 0), other);
  proxy.SetUp(first, true, 1);
  EXPECT_EQ(proxy.Find(route, 1), other) << "its caches are there now";
  proxy.SetUp(first, false, 2);
  proxy.SetUp(other, false, 2);
  EXPECT_EQ(proxy.Find(route, 2), kNone) << "no other cell has its conversations";
  Route newcomer = Key(1);
  EXPECT_NE(proxy.Find(newcomer, 2), kNone) << "a new route takes another cell";
}

TEST_F(ProxyTest, WithoutStickRouteReturnsToItsServer) {
  options_.stick = false, options_.bound = 0;
  Proxy proxy = Of(8);
  Route route = Key(1);
  const uint32_t first = proxy.Find(route, 0);
  proxy.SetUp(first, false, 0);
  EXPECT_EQ(proxy.Find(route, 0), first ^ 1);
  proxy.SetUp(first, true, 1);
  EXPECT_EQ(proxy.Find(route, 1), first);
}

TEST_F(ProxyTest, ReturningServerStartsSlowly) {
  options_.slow_start_s = 100, options_.bound = 0;
  Proxy proxy = Of(1);
  proxy.SetUp(0, false, 0);
  proxy.SetUp(0, true, 0);
  const auto routes = [&](double now_s) {
    int count = 0;
    for (uint64_t key = 0; key < 1000; ++key) {
      Route route = Key(key);
      count += proxy.Find(route, now_s) == 0;
    }
    return count;
  };
  EXPECT_LT(routes(10), 200);
  EXPECT_NEAR(routes(100), 500, 120);
}

TEST_F(ProxyTest, LostTableMovesRoutesOnlyIfMembershipHasChanged) {
  options_.bound = 0;
  Proxy proxy = Of(8);
  std::vector<Route> routes;
  for (uint64_t key = 0; key < 1000; ++key) proxy.Find(routes.emplace_back(Key(key)), 0);
  const auto moved = [&] {
    int count = 0;
    for (Route& route : routes) {
      const uint32_t cell = route.cell;
      proxy.Find(route, 0);
      count += route.cell != cell;
    }
    return count;
  };
  proxy.Forget();
  EXPECT_EQ(moved(), 0);
  proxy.Add(8, 1);
  proxy.Add(8, 1);
  proxy.Sort();
  EXPECT_EQ(moved(), 0) << "remembered";
  proxy.Forget();
  EXPECT_NEAR(moved(), 1000 / 9, 60);
}

}  // namespace
}  // namespace ringside
