// Items added and deleted concurrently by several threads.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <string>
#include <thread>
#include <vector>

#include "session/table/session_table.h"
#include "tests/session/scripted_engine.h"

namespace ringside {
namespace {

// A deletion names its item: items added after it meanwhile are kept.
TEST(ConcurrentItems, DeletingTheLastItemDeletesNoOther) {
  TableFixture fixture;
  SessionTable& table = fixture.table;
  const Caller me{"me", 7};
  const std::string id = table.CreateSession(me, {}, {}, {})->id;
  std::atomic<bool> done{false};
  std::vector<std::string> deleted;
  std::thread deleting([&] {
    while (!done) {
      const auto items = table.GetItems(me, id);
      if (!items.ok() || items->empty()) continue;
      const std::string last = items->back().id;
      if (table.DeleteItem(me, id, last).ok()) deleted.push_back(last);
    }
  });
  std::vector<std::string> added;
  for (int i = 0; i < 2'000; ++i) {
    const auto items = table.AddItems(me, id, {{ChatRole::kUser, "x"}});
    if (items.ok()) added.push_back(items->front().id);
  }
  done = true;
  deleting.join();
  std::vector<std::string> kept;
  const SharedList<Item> left = table.GetItems(me, id).value();
  for (const Item& item : left) kept.push_back(item.id);
  kept.insert(kept.end(), deleted.begin(), deleted.end());
  std::sort(kept.begin(), kept.end());
  std::sort(added.begin(), added.end());
  EXPECT_EQ(kept.size(), added.size());
  EXPECT_TRUE(kept == added);
}

}  // namespace
}  // namespace ringside
