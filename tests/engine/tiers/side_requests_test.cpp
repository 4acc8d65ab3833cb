// Short requests without a continuation (titles, probes) displace no conversation from its slot or host memory.
#include "tests/engine/tiers/engine_tiers.h"

namespace ringside {
namespace {

class SideRequestsTest : public EngineTiersTest {
 protected:
  static constexpr TimelineId kConversation = 1, kOther = 2;

  /// As a stateless request: its cache is never stored on disk.
  SubmittedTurn Stateless(TimelineId timeline, std::vector<TokenId> tokens, int64_t max_tokens, bool continues) {
    SubmittedTurn turn = Turn(next_turn_++, timeline, std::move(tokens), max_tokens);
    turn.request.owner = std::string(TieredStore::kMemoryOnly) + std::to_string(timeline);
    turn.request.continues = continues;
    return turn;
  }
  /// Two turns of a conversation.
  void Converse(TimelineId timeline) {
    std::vector<TokenId>& tokens = said_[timeline];
    for (const bool continues : {false, true}) {
      for (const TokenId id : Tokens(12, static_cast<uint32_t>(timeline))) tokens.push_back(id);
      const TurnEnd end = Run(Stateless(timeline, tokens, 3, continues));
      ExpectRight(tokens, end);
      tokens.insert(tokens.end(), end.output.begin(), end.output.end());
    }
  }
  void ExpectAllReused(TimelineId timeline, CacheSource source) {
    std::vector<TokenId> tokens = said_[timeline];
    tokens.push_back(7);
    const TurnEnd end = Run(Stateless(timeline, tokens, 3, true));
    ExpectRight(tokens, end);
    EXPECT_EQ(end.report.source, source);
    EXPECT_EQ(end.report.tokens_computed, 2) << "the last one of the answer before, and the new one";
  }
  void AskManyTitles(size_t tokens) {
    for (TimelineId i = 0; i < 40; ++i) {
      Run(Stateless(100 + i, Tokens(tokens, static_cast<uint32_t>(100 + i)), 2, false));
    }
    SettleTiers();
  }

  TurnId next_turn_ = 1;
  std::map<TimelineId, std::vector<TokenId>> said_;
};

INSTANTIATE_TEST_SUITE_P(All, SideRequestsTest, ::testing::Bool(),
                         [](const auto& info) { return info.param ? "Ahead" : "InStep"; });

TEST_P(SideRequestsTest, DoNotEvictConversations) {
  StartInMemory({.slots = 3});
  Converse(kConversation);
  Converse(kOther);
  AskManyTitles(9);
  ExpectAllReused(kConversation, CacheSource::kSlot);
  ExpectAllReused(kOther, CacheSource::kSlot);
}

TEST_P(SideRequestsTest, SingleSlotKeepsTheConversationInHostMemory) {
  StartInMemory({.slots = 1});
  Converse(kConversation);
  Run(Stateless(99, Tokens(9, 99), 2, false));
  SettleTiers();
  const int64_t conversation_bytes = tiers_->stats().host_bytes;
  ASSERT_GT(conversation_bytes, 0);
  engine_.reset();
  said_.clear();
  // Room for the conversation and for very few of the others.
  StartInMemory({.slots = 1}, {}, 2 * conversation_bytes);
  Converse(kConversation);
  AskManyTitles(9);
  ExpectAllReused(kConversation, CacheSource::kHost);
  AskManyTitles(9);
  EXPECT_GT(SettledStats().caches_dropped, 40u) << "those for which there was no room";
  EXPECT_LE(tiers_->stats().host_bytes, 2 * conversation_bytes);
}

// A conversation's first turn counts as such a request only while it is short, and only in memory.
TEST_P(SideRequestsTest, StoredConversationsAreNotSideRequests) {
  StartInMemory({.slots = 2});
  Run(Turn(next_turn_++, kConversation, Tokens(9, 1), 2));  // the owner's name is that of a stored conversation
  Run(Stateless(50, Tokens(9, 50), 2, false));
  Run(Stateless(51, Tokens(9, 51), 2, false));
  Settle();
  EXPECT_EQ(engine_->Where(Owner(kConversation)), CacheSource::kSlot) << "used longest ago, and it stays";
}

}  // namespace
}  // namespace ringside
