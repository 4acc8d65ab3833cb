// Tickets: valid once, for a limited time, for chat only, and limited in number.
#include "ws/access/tickets.h"

#include <gtest/gtest.h>

#include <set>

namespace ringside {
namespace {

TEST(TicketBoxTest, TicketIsSingleUseAndForChatOnly) {
  ManualClock clock;
  TicketBox box(clock);
  const std::string ticket = box.Issue({"owner:alice", Scopes::All(), "0123456789ab"}, 60).value();
  EXPECT_TRUE(TicketBox::IsTicket(ticket));
  EXPECT_EQ(ticket.size(), 3u + 64u);
  EXPECT_FALSE(box.Take(ticket + "0"));
  const auto identity = box.Take(ticket);
  ASSERT_TRUE(identity);
  EXPECT_EQ(identity->principal, "owner:alice");
  EXPECT_EQ(identity->key_id, "0123456789ab");
  EXPECT_EQ(identity->scopes, Scopes::Chat());
  EXPECT_FALSE(box.Take(ticket));
}

TEST(TicketBoxTest, TicketExpires) {
  ManualClock clock;
  TicketBox box(clock);
  const std::string ticket = box.Issue({"a", Scopes::All(), ""}, 60).value();
  const std::string longer = box.Issue({"a", Scopes::All(), ""}, 61).value();
  clock.AdvanceMs(60'000);
  EXPECT_FALSE(box.Take(ticket));
  EXPECT_TRUE(box.Take(longer));
}

TEST(TicketBoxTest, LimitsTicketsPerOwner) {
  ManualClock clock;
  TicketBox box(clock);
  std::set<std::string> tickets;
  for (size_t i = 0; i < TicketBox::kMostOfOneOwner; ++i)
    tickets.insert(box.Issue({"a", Scopes::All(), ""}, 60).value());
  EXPECT_EQ(tickets.size(), TicketBox::kMostOfOneOwner);
  EXPECT_EQ(box.Issue({"a", Scopes::All(), ""}, 60).status().reason(), "rate_limit_exceeded");
  EXPECT_TRUE(box.Issue({"b", Scopes::All(), ""}, 60).ok());
  EXPECT_TRUE(box.Take(*tickets.begin()));
  EXPECT_TRUE(box.Issue({"a", Scopes::All(), ""}, 60).ok()) << "a used one makes room";
  clock.AdvanceMs(60'000);
  for (size_t i = 0; i < TicketBox::kMostOfOneOwner; ++i) ASSERT_TRUE(box.Issue({"a", Scopes::All(), ""}, 60).ok());
}

TEST(TicketBoxTest, LimitsTheSessionSettings) {
  ManualClock clock;
  TicketBox box(clock);
  const std::string session(TicketBox::kBytesOfOneOwner / 2, 's');
  const std::string ticket = box.Issue({"a", Scopes::All(), "", session}, 60).value();
  EXPECT_TRUE(box.Issue({"a", Scopes::All(), "", session}, 60).ok());
  EXPECT_EQ(box.Issue({"a", Scopes::All(), "", "s"}, 60).status().reason(), "rate_limit_exceeded");
  EXPECT_EQ(box.Take(ticket)->session, session);
  EXPECT_TRUE(box.Issue({"a", Scopes::All(), "", session}, 60).ok());
  // All owners together.
  const size_t owners = TicketBox::kMostBytes / TicketBox::kBytesOfOneOwner;
  for (size_t owner = 1; owner < owners; ++owner) {
    for (int i = 0; i < 2; ++i) ASSERT_TRUE(box.Issue({std::to_string(owner), Scopes::All(), "", session}, 60).ok());
  }
  EXPECT_FALSE(box.Issue({"b", Scopes::All(), "", session}, 60).ok());
  EXPECT_TRUE(box.Issue({"b", Scopes::All(), ""}, 60).ok());
  clock.AdvanceMs(60'000);
  EXPECT_TRUE(box.Issue({"b", Scopes::All(), "", session}, 60).ok());
}

}  // namespace
}  // namespace ringside
