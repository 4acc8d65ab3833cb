// A journal over a shared store, with one server: appends, reads, erasing, encryption, damage.
#include <gmock/gmock.h>

#include "tests/session/postgres/postgres_fixture.h"

namespace ringside {
namespace {

using testing::ElementsAre;

class PostgresJournalTest : public PostgresTest {};

TEST_F(PostgresJournalTest, ReadsBackWhatItAppended) {
  const auto journal = MustOpen("a");
  ASSERT_NE(journal, nullptr);
  ASSERT_TRUE(Write(*journal, Labelled("conv_1", {"one", "two"}, {.owner = "ada", .conversation = true})).ok());
  ASSERT_TRUE(Write(*journal, Entry("conv_1", {std::string("\0three\xff", 7)})).ok());
  EXPECT_THAT(Payloads(*journal, "conv_1"), ElementsAre("one", "two", std::string("\0three\xff", 7)));
  EXPECT_EQ(journal->Summary("conv_1")->summary, "summary of conv_1");
  EXPECT_EQ(journal->Last("conv_1")->seq, 3U);
  EXPECT_EQ(journal->Last("conv_1")->chain, *journal->ChainAt("conv_1", 3));
  EXPECT_THAT(*journal->Verify(), ElementsAre());
}

}  // namespace
}  // namespace ringside
