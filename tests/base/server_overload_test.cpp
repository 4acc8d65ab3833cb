#include "base/refusals/server_overload.h"

#include <gtest/gtest.h>

namespace ringside {
namespace {

TEST(ServerOverload, IsReadFromItsStatus) {
  const Status status = ServerOverload{.wait_s = 12.5, .retry_after_s = 60}.ToStatus();
  EXPECT_EQ(status.code(), StatusCode::kOverloaded);
  EXPECT_EQ(status.message(), "The server is overloaded: this turn would wait for 12.50 s. Retry after 60 s.");
  const auto read = ReadServerOverload(status);
  ASSERT_TRUE(read);
  EXPECT_EQ(read->wait_s, 12.5);
  EXPECT_EQ(read->retry_after_s, 60);
}

TEST(ServerOverload, OtherStatusesAreNone) {
  const Status status = ServerOverload{}.ToStatus();
  EXPECT_FALSE(ReadServerOverload(Status::Ok()));
  EXPECT_FALSE(ReadServerOverload(Overloaded(status.message()))) << "another reason";
  for (const char* text : {"", "Full.", "The server is overloaded: this turn would wait for x s. Retry after 1 s."}) {
    EXPECT_FALSE(ReadServerOverload(Status(StatusCode::kOverloaded, text, "", ServerOverload::kReason))) << text;
  }
  const Status longer(StatusCode::kOverloaded, status.message() + " Or never.", "", ServerOverload::kReason);
  EXPECT_FALSE(ReadServerOverload(longer));
}

}  // namespace
}  // namespace ringside
