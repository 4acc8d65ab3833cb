// Share links: stored by digest, read without the owner's key, gone when revoked, expired or deleted.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "session/share.h"
#include "tests/session/durable_fixture.h"

namespace ringside {
namespace {

class SharesTest : public DurableSessionTest {
 protected:
  std::string Share(const std::string& id, int64_t seconds = 0) { return table->ShareSession(me, id, seconds)->token; }
  /// The first text that a link opens, or the reason why it opens none.
  std::string Read(const std::string& token) {
    const Result<SharedSession> shared = table->ReadShare(token);
    return shared.ok() ? std::string((*shared->items.begin()).text) : shared.status().reason();
  }
};

TEST_F(SharesTest, LinkIsReadAcrossARestart) {
  const std::string id = NewConversation();
  Turn(Ask("Hi", id), "Yo");
  const std::string token = Share(id);
  EXPECT_EQ(Read(token), "Hi");
  Restart();
  EXPECT_EQ(Read(token), "Hi");
  EXPECT_EQ(table->ListShares(me, id)->size(), 1U);
}

TEST_F(SharesTest, RevokedExpiredAndDeletedLinksOpenNothing) {
  const std::string id = NewConversation();
  Turn(Ask("Hi", id), "Yo");
  const std::string kept = Share(id), ends = Share(id, 60);
  const NewShare revoked = *table->ShareSession(me, id, 0);
  ASSERT_TRUE(table->RevokeShare(me, id, revoked.share.id).ok());
  EXPECT_EQ(Read(revoked.token), "share_not_found");
  EXPECT_EQ(table->RevokeShare(me, id, revoked.share.id).reason(), "share_not_found");
  Restart();
  EXPECT_EQ(Read(revoked.token), "share_not_found");
  EXPECT_EQ(Read(ends), "Hi");
  clock.AdvanceMs(60'000);
  EXPECT_EQ(Read(ends), "share_not_found");
  EXPECT_EQ(Read(kept), "Hi");
  EXPECT_EQ(table->ListShares(me, id)->size(), 1U);
  ASSERT_TRUE(table->DeleteSession(me, id).ok());
  EXPECT_EQ(Read(kept), "share_not_found");
}

TEST_F(SharesTest, OnlyTheOwnerHandlesLinks) {
  const std::string id = NewConversation();
  const NewShare made = *table->ShareSession(me, id, 0);
  const Caller other{"other", 9};
  EXPECT_EQ(table->ShareSession(other, id, 0).status().code(), StatusCode::kNotFound);
  EXPECT_EQ(table->ListShares(other, id).status().code(), StatusCode::kNotFound);
  EXPECT_EQ(table->RevokeShare(other, id, made.share.id).code(), StatusCode::kNotFound);
}

TEST_F(SharesTest, NumberIsBounded) {
  const std::string id = NewConversation();
  for (int64_t i = 0; i < kMaxSharesPerConversation; ++i)
    EXPECT_TRUE(table->ShareSession(me, id, i == 0 ? 60 : 0).ok());
  EXPECT_EQ(table->ShareSession(me, id, 0).status().reason(), "rate_limit_exceeded");
  clock.AdvanceMs(60'000);  // an expired link gives its place away
  EXPECT_TRUE(table->ShareSession(me, id, 0).ok());
  EXPECT_EQ(table->ShareSession(me, id, 0).status().reason(), "rate_limit_exceeded");
}

TEST_F(SharesTest, LinksAreNotCopied) {
  const std::string id = NewConversation();
  Turn(Ask("Hi", id), "Yo");
  const std::string token = Share(id);
  const std::string fork = table->Fork(me, id, std::nullopt)->id;
  EXPECT_TRUE(table->ListShares(me, fork)->empty());
  const std::string import = table->ImportSession(me, *table->ExportSession(me, id))->id;
  EXPECT_TRUE(table->ListShares(me, import)->empty());
  EXPECT_EQ(Read(fork + token.substr(token.find('.'))), "share_not_found");
}

TEST_F(SharesTest, StoreHoldsNoSecret) {
  const std::string id = NewConversation();
  const std::string secret = Share(id).substr(id.size() + 1);
  Close();
  for (const auto& file : std::filesystem::recursive_directory_iterator(path)) {
    if (!file.is_regular_file()) continue;
    std::ifstream in(file.path(), std::ios::binary);
    const std::string bytes{std::istreambuf_iterator<char>(in), {}};
    EXPECT_EQ(bytes.find(secret), std::string::npos) << file.path();
  }
}

TEST(ShareToken, IsRead) {
  const ShareToken token{"conv_0123456789abcdefghijkl", MakeShareSecret()};
  const auto read = ParseShareToken(token.Text());
  ASSERT_TRUE(read);
  EXPECT_EQ(read->session, token.session);
  EXPECT_EQ(read->secret, token.secret);
  EXPECT_NE(MakeShareSecret(), MakeShareSecret());
  for (const std::string& bad : {std::string(), std::string("."), token.session, token.Text() + "0", "x" + token.Text(),
                                 token.session + "." + std::string(64, 'A'), token.Text() + "\n"}) {
    EXPECT_FALSE(ParseShareToken(bad)) << bad;
  }
}

TEST(ShareToken, OpensOnlyItsShare) {
  const std::string secret = MakeShareSecret();
  const std::vector<Share> shares = {{"share_a", DigestShareSecret(MakeShareSecret()), 1, 0},
                                     {"share_b", DigestShareSecret(secret), 1, 5}};
  EXPECT_TRUE(OpensShare(shares, secret, 4));
  EXPECT_FALSE(OpensShare(shares, secret, 5));
  EXPECT_FALSE(OpensShare(shares, MakeShareSecret(), 4));
  EXPECT_FALSE(OpensShare(shares, "", 4));
}

}  // namespace
}  // namespace ringside
