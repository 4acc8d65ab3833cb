// Look-ups over the sessions of all servers: places, lists by pages, sums, sessions that may be deleted.
#include <gmock/gmock.h>

#include <algorithm>
#include <functional>
#include <set>

#include "tests/session/postgres/postgres_fixture.h"

namespace ringside {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::UnorderedElementsAre;

class PostgresLookupsTest : public PostgresPairTest {
 protected:
  void Chain(Journal& journal, const std::string& name, double used_s, const std::string& owner = "ada") {
    ASSERT_TRUE(Write(journal, Labelled(name, {"x"}, {.owner = owner, .used_s = used_s})).ok());
  }
  void Conversation(Journal& journal, const std::string& name, double created_at, const std::string& owner = "ada") {
    const SessionLabel label = {.owner = owner, .conversation = true, .created_at = created_at, .used_s = 100};
    ASSERT_TRUE(Write(journal, Labelled(name, {"x"}, label)).ok());
  }
  std::vector<std::string> Names(const std::string& owner, const std::string& after, int64_t limit) {
    std::vector<std::string> names;
    const auto rows = b_->shared()->List(owner, after, limit);
    EXPECT_TRUE(rows.ok()) << rows.status().ToString();
    for (const SharedRow& row : rows.ok() ? *rows : std::vector<SharedRow>()) names.push_back(row.session);
    return names;
  }
};

TEST_F(PostgresLookupsTest, FindsThePlaceOfASession) {
  Conversation(*a_, "conv_1", 1);
  SharedLog& from_a = *a_->shared();
  SharedLog& from_b = *b_->shared();
  EXPECT_EQ(from_a.server(), "a");
  const auto own = from_a.Find("conv_1", "ada");
  EXPECT_TRUE(own->server == "a" && own->mine && own->live);
  const auto other = from_b.Find("conv_1", std::nullopt);
  EXPECT_TRUE(other->server == "a" && !other->mine && other->live);
  EXPECT_EQ(from_b.Find("conv_1", "bob").status().code(), StatusCode::kNotFound);
  EXPECT_EQ(from_b.Find("conv_2", std::nullopt).status().code(), StatusCode::kNotFound);
  EndLease("a");
  const auto ended = from_b.Find("conv_1", "ada");
  EXPECT_TRUE(ended->server.empty() && !ended->mine && !ended->live);
  ASSERT_TRUE(b_->Claim("conv_1").ok());
  ASSERT_TRUE(Release(*b_, "conv_1").ok());
  const auto released = from_a.Find("conv_1", "ada");
  EXPECT_TRUE(released->server.empty() && !released->mine && !released->live);
}

TEST_F(PostgresLookupsTest, ReportsWhichSessionsExist) {
  Chain(*a_, "chain_1", 1);
  Chain(*a_, "chain_2", 1, "bob");
  EXPECT_THAT(*b_->shared()->Existing("ada", {"chain_1", "chain_2", "chain_3"}), ElementsAre("chain_1"));
  EXPECT_THAT(*b_->shared()->Existing("ada", {}), IsEmpty());
}

TEST_F(PostgresLookupsTest, ListsConversationsOfAllServersNewestFirst) {
  Conversation(*a_, "conv_1", 10);
  Conversation(*b_, "conv_2", 30);
  Conversation(*a_, "conv_3", 20);
  Conversation(*a_, "conv_4", 20);
  Conversation(*a_, "conv_5", 99, "bob");
  Chain(*a_, "chain_1", 1);
  EXPECT_THAT(Names("ada", "", 10), ElementsAre("conv_2", "conv_4", "conv_3", "conv_1"));
  EXPECT_THAT(Names("ada", "conv_4", 1), ElementsAre("conv_3"));
  EXPECT_THAT(Names("ada", "conv_1", 1), IsEmpty());
  EXPECT_THAT(Names("carol", "", 10), IsEmpty());
  for (const char* after : {"conv_unknown", "conv_5", "chain_1"})
    EXPECT_EQ(b_->shared()->List("ada", after, 10).status().code(), StatusCode::kNotFound) << after;
  const auto listed = b_->List("ada", "", 1);
  ASSERT_TRUE(listed.ok());
  EXPECT_EQ(listed->at(0).stored.summary, "summary of conv_2");
  EXPECT_EQ(listed->at(0).stored.last, *b_->Last("conv_2"));
}

TEST_F(PostgresLookupsTest, ListsTenThousandByPages) {
  server_->Execute(database_,
                   "insert into session (key, owner, conversation, created_at, head, summary) select 'conv_' "
                   "|| lpad(i::text, 5, '0'), 'ada', true, i / 7, '\\x00', '\\x01' from "
                   "generate_series(0, 9999) as i");
  std::vector<std::string> all;
  for (std::vector<std::string> page; all.empty() || !page.empty(); all.insert(all.end(), page.begin(), page.end()))
    page = Names("ada", all.empty() ? "" : all.back(), 100);
  ASSERT_EQ(all.size(), 10'000U);
  EXPECT_TRUE(std::ranges::is_sorted(all, std::greater<>()));
  EXPECT_EQ(std::set<std::string>(all.begin(), all.end()).size(), all.size());
  EXPECT_EQ(b_->shared()->Totals("ada")->conversations, 10'000);
}

// PostgreSQL refuses such text: look-ups find nothing, and the journal continues.
TEST_F(PostgresLookupsTest, NamesThatTheDatabaseCannotHoldDoNotExist) {
  const std::string kNames[] = {"conv_\xff", std::string("conv_\0x", 7), "conv_\xC3\xA4", "conv_\n"};
  SharedLog& shared = *a_->shared();
  for (const std::string& name : kNames) {
    EXPECT_EQ(shared.Find(name, std::nullopt).status().code(), StatusCode::kNotFound);
    EXPECT_EQ(a_->Claim(name).code(), StatusCode::kNotFound);
    EXPECT_TRUE(shared.AskFor(name).ok());
    EXPECT_EQ(a_->Read(name).status().code(), StatusCode::kNotFound);
    EXPECT_EQ(a_->ChainAt(name, 1).status().code(), StatusCode::kNotFound);
    EXPECT_EQ(shared.List("ada", name, 10).status().code(), StatusCode::kNotFound);
    EXPECT_THAT(*shared.Existing("ada", {name}), IsEmpty());
    EXPECT_EQ(Write(*a_, Entry(name, {"x"}, true)).code(), StatusCode::kInvalidArgument);
  }
  EXPECT_TRUE(a_->healthy());
}

TEST_F(PostgresLookupsTest, OwnersMayHaveAnyName) {
  const std::string kOwners[] = {"Zo\xC3\xAB", "\xff", std::string("\0", 1), "\\xff", ""};
  for (size_t i = 0; i < std::size(kOwners); ++i) Conversation(*a_, "conv_" + std::to_string(i), 1, kOwners[i]);
  for (size_t i = 0; i < std::size(kOwners); ++i) {
    EXPECT_THAT(Names(kOwners[i], "", 10), ElementsAre("conv_" + std::to_string(i)));
    EXPECT_EQ(b_->shared()->Totals(kOwners[i])->conversations, 1);
  }
}

TEST_F(PostgresLookupsTest, SumsByOwner) {
  Conversation(*a_, "conv_1", 1);
  Chain(*b_, "chain_1", 1);
  Chain(*b_, "chain_2", 1);
  Chain(*b_, "chain_3", 1, "bob");
  ASSERT_TRUE(Write(*b_, Entry("chain_3", {"12345"})).ok());
  const auto ada = a_->shared()->Totals("ada");
  EXPECT_TRUE(ada->conversations == 1 && ada->chains == 2 && ada->stored_bytes == 3) << ada->stored_bytes;
  EXPECT_EQ(a_->shared()->Totals("carol")->chains, 0);
  EXPECT_EQ(a_->shared()->Totals("carol")->sample, "");
  const auto all = a_->shared()->AllTotals();
  ASSERT_EQ(all->size(), 2U);
  std::vector<std::string> sums;
  for (const SharedTotals& owner : *all) {
    EXPECT_TRUE(a_->Summary(owner.sample).ok());
    sums.push_back(owner.sample + " " + std::to_string(owner.chains) + " " + std::to_string(owner.stored_bytes));
  }
  EXPECT_THAT(sums, UnorderedElementsAre("chain_1 2 3", "chain_3 1 6"));
}

TEST_F(PostgresLookupsTest, FindsOldChainsThatMayBeDeleted) {
  for (int i = 1; i <= 5; ++i) Chain(*b_, "chain_" + std::to_string(i), i);
  Chain(*a_, "chain_0", 0);
  Conversation(*b_, "conv_1", 1);
  SharedLog& shared = *b_->shared();
  EXPECT_THAT(*shared.OldChains("ada", 2, 10), ElementsAre("chain_1", "chain_2", "chain_3")) << "chain_0 is another's";
  EXPECT_THAT(*shared.OldChains("ada", 2, 1), ElementsAre("chain_1"));
  EXPECT_THAT(*shared.OldChains("ada", 6, 10), IsEmpty());
  EXPECT_THAT(*shared.OldChains("bob", 0, 10), IsEmpty());
  ASSERT_TRUE(Release(*a_, "chain_0").ok());
  EXPECT_THAT(*shared.OldChains("ada", 4, 10), ElementsAre("chain_0", "chain_1"));
}

TEST_F(PostgresLookupsTest, FindsSessionsThatAreNotUsed) {
  Chain(*a_, "chain_1", 5);
  Chain(*b_, "chain_2", 7, "bob");
  Chain(*b_, "chain_3", 50);
  Conversation(*b_, "conv_1", 1);
  EXPECT_THAT(*b_->shared()->UnusedSince(50, 10), ElementsAre("chain_2"));
  EXPECT_THAT(*b_->shared()->UnusedSince(1000, 2), ElementsAre("chain_2", "chain_3"));
  EndLease("a");
  EXPECT_THAT(*b_->shared()->UnusedSince(50, 10), ElementsAre("chain_1", "chain_2"));
}

}  // namespace
}  // namespace ringside
