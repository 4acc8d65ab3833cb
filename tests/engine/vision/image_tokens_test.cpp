#include "engine/vision/image_tokens.h"

#include <gtest/gtest.h>

#include <set>

namespace ringside {
namespace {

TEST(ImageTokens, DependOnThePictureAndOnTheRow) {
  std::array<uint8_t, 32> one{}, two{};
  two[7] = 1;
  std::set<TokenId> ids;
  for (int64_t i = 0; i < 500; ++i) {
    for (const auto& digest : {one, two}) {
      const TokenId id = ImageToken(digest, i);
      EXPECT_TRUE(IsImageToken(id));
      ids.insert(id);
    }
  }
  EXPECT_GE(ids.size(), 999u);  // of 2^30 values
  EXPECT_FALSE(IsImageToken(kFirstImageToken - 1));
  EXPECT_FALSE(IsImageToken(-1));
}

// They are stored in journals and snapshots.
TEST(ImageTokens, NeverChange) {
  std::array<uint8_t, 32> digest{};
  for (size_t i = 0; i < digest.size(); ++i) digest[i] = static_cast<uint8_t>(i);
  EXPECT_EQ(ImageToken(digest, 0), 2056195217);
  EXPECT_EQ(ImageToken(digest, 1000), 1096735427);
}

}  // namespace
}  // namespace ringside
