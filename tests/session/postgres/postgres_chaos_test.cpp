// Three servers, eight sessions, and a nemesis that cuts connections, terminates backends and keeps servers away from
// the database for longer than their leases. What was acknowledged is stored once, at its number, and the chains
// verify.
#include <gmock/gmock.h>

#include <map>
#include <mutex>
#include <random>
#include <thread>

#include "tests/session/postgres/postgres_fixture.h"
#include "tests/session/postgres/postgres_proxy.h"

namespace ringside {
namespace {

using namespace std::chrono_literals;

constexpr int kSessions = 8;

class PostgresChaosTest : public PostgresTest {
 protected:
  struct Server {
    std::string name;
    std::unique_ptr<PostgresProxy> proxy;
    std::thread thread;
    uint64_t acknowledged = 0;
    int restarts = 0;
  };

  std::unique_ptr<Journal> OpenThrough(const PostgresProxy& proxy, const std::string& name) {
    SharedStoreOptions options = Options(name);
    options.url = server_->Url(database_, "ringside", proxy.folder());
    options.lease_s = 0.5;
    options.stop = stop_.get_token();
    auto journal = TryOpen(options);
    return journal.ok() ? std::move(*journal) : nullptr;
  }

  /// Claims, appends and releases until the end. A server that lost its lease is restarted.
  void Work(Server& server, unsigned seed) {
    std::mt19937 random(seed);
    std::unique_ptr<Journal> journal;
    for (int number = 0; !ending_; ++number) {
      if (journal == nullptr || !journal->healthy() || journal->shared()->Fenced()) {
        journal = nullptr;
        journal = OpenThrough(*server.proxy, server.name);
        ++server.restarts;
        continue;
      }
      const std::string session = "conv_" + std::to_string(random() % kSessions);
      if (!journal->Claim(session).ok()) continue;
      const std::string payload = server.name + " " + std::to_string(number);
      const Told told = Append(*journal, Entry(session, {payload})).get();
      if (told.status.ok()) {
        std::lock_guard lock(mutex_);
        acknowledged_[{session, told.last.seq}] += payload;
        ++server.acknowledged;
      }
      if (random() % 2 == 0 && !Release(*journal, session).ok()) continue;
    }
  }

  void Disturb(std::vector<Server>& servers, std::mt19937& random) {
    PostgresProxy& proxy = *servers[random() % servers.size()].proxy;
    switch (random() % 3) {
      case 0:  // connections are cut
        proxy.SetAway(true);
        proxy.SetAway(false);
        break;
      case 1:  // for longer than a lease
        proxy.SetAway(true);
        std::this_thread::sleep_for(1'200ms);
        proxy.SetAway(false);
        break;
      default:
        server_->Numbers("postgres",
                         "select pg_terminate_backend(pid)::int::int8 from pg_stat_activity where datname = '" +
                             database_ + "' and application_name like 'ringside %' and random() < 0.3");
    }
    std::this_thread::sleep_for(100ms);
  }

  uint64_t Acknowledged(const std::vector<Server>& servers) {
    std::lock_guard lock(mutex_);
    uint64_t least = ~uint64_t{0};
    for (const Server& server : servers) least = std::min(least, server.acknowledged);
    return least;
  }

  std::atomic<bool> ending_{false};
  std::stop_source stop_;
  std::mutex mutex_;  // guards the following member and the servers' counts
  std::map<std::pair<std::string, uint64_t>, std::string> acknowledged_;
};

TEST_F(PostgresChaosTest, AcknowledgedRecordsAreStoredOnce) {
  {
    const auto journal = MustOpen("first");
    for (int i = 0; i < kSessions; ++i)
      ASSERT_TRUE(Write(*journal, Entry("conv_" + std::to_string(i), {"first"}, true)).ok());
  }
  const char* const rounds = std::getenv("RINGSIDE_CHAOS_ROUNDS");
  const int least_rounds = rounds == nullptr ? 12 : std::atoi(rounds);
  const unsigned seed = std::random_device()();
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  std::mt19937 random(seed);
  std::vector<Server> servers(3);
  for (size_t i = 0; i < servers.size(); ++i) {
    servers[i].name = std::string(1, static_cast<char>('a' + i));
    servers[i].proxy = std::make_unique<PostgresProxy>(server_->socket());
    servers[i].thread = std::thread([this, &server = servers[i], i, seed] { Work(server, seed + i); });
  }
  for (int round = 0; round < least_rounds || Acknowledged(servers) < 20; ++round) Disturb(servers, random);
  ending_ = true;
  stop_.request_stop();
  for (Server& server : servers) server.thread.join();

  const auto journal = MustOpen("last");
  ASSERT_NE(journal, nullptr);
  EXPECT_THAT(*journal->Verify(), testing::IsEmpty());
  std::map<std::string, std::vector<std::string>> stored;
  for (int i = 0; i < kSessions; ++i) {
    const std::string session = "conv_" + std::to_string(i);
    stored[session] = Payloads(*journal, session);
  }
  for (const auto& [place, payload] : acknowledged_) {
    const std::vector<std::string>& payloads = stored[place.first];
    ASSERT_LE(place.second, payloads.size()) << payload;
    EXPECT_EQ(payloads[place.second - 1], payload) << place.first << " " << place.second;
  }
  std::map<std::string, int> times;
  for (const auto& [session, payloads] : stored) {
    for (const std::string& payload : payloads) ++times[payload];
  }
  times.erase("first");
  for (const auto& [payload, count] : times) EXPECT_EQ(count, 1) << payload;
}

}  // namespace
}  // namespace ringside
