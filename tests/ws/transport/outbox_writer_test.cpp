// The writer of an outbox: the bytes being written, their budget, and the close that follows them.
#include "ws/transport/outbox_writer.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>

namespace ringside::testing {
namespace {

class OutboxWriterTest : public ::testing::Test {
 protected:
  void SetUp() override { output_.Open(outbox_, "owner"); }

  BodyBudget answers_{100'000};
  std::shared_ptr<Outbox> outbox_ = std::make_shared<Outbox>([] {});
  OutboxWriter output_{answers_};
};

TEST_F(OutboxWriterTest, WritesWhatWasSetAndAppended) {
  output_.Set("one");
  output_.Append(" two");
  ASSERT_TRUE(output_.Begin());
  EXPECT_TRUE(output_.writing());
  EXPECT_EQ(output_.written(), "one two");
  output_.End();
  EXPECT_FALSE(output_.writing());
  EXPECT_EQ(output_.written(), "");
}

TEST_F(OutboxWriterTest, ChargesTheBytesBeingWritten) {
  output_.Set(std::string(BodyShare::kFreeBytes + 60'000, 'x'));
  ASSERT_TRUE(output_.Begin());
  EXPECT_FALSE(answers_.Take("other", 45'000));
  output_.End();
  EXPECT_TRUE(answers_.Take("other", 45'000));
}

TEST_F(OutboxWriterTest, RefusesToWriteWithoutRoom) {
  ASSERT_TRUE(answers_.Take("other", 50'000));
  output_.Set(std::string(BodyShare::kFreeBytes + 60'000, 'x'));
  EXPECT_FALSE(output_.Begin());
  EXPECT_FALSE(output_.writing());
}

TEST_F(OutboxWriterTest, KeepsTheCloseThatFollowsAllMessages) {
  outbox_->Push("one");
  outbox_->Close(1012, "bye");
  EXPECT_FALSE(output_.TakeClose());
  EXPECT_FALSE(output_.close());
  ASSERT_TRUE(outbox_->Take());
  EXPECT_TRUE(output_.TakeClose());
  EXPECT_FALSE(output_.TakeClose());
  ASSERT_TRUE(output_.close());
  EXPECT_EQ(output_.close()->code, 1012);
}

}  // namespace
}  // namespace ringside::testing
