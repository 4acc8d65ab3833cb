// The parts of a WebSocket alone, without a network: input, calls of the face, signs of life.
#include <gtest/gtest.h>

#include <stdexcept>
#include <vector>

#include "ws/transport/socket/face_calls.h"
#include "ws/transport/socket/socket_activity.h"
#include "ws/transport/socket/socket_input.h"

namespace ringside::testing {
namespace {

using std::chrono::milliseconds;

constexpr int64_t kMaxMessageBytes = 1'000;

void Receive(SocketInput& input, const std::string& bytes) {
  const auto space = input.buffer().prepare(bytes.size());
  std::copy(bytes.begin(), bytes.end(), static_cast<char*>(space.data()));
  input.buffer().commit(bytes.size());
}

class SocketInputTest : public ::testing::Test {
 protected:
  BodyBudget bodies_{1 << 20};
  SocketInput input_{kMaxMessageBytes, 5, bodies_};
};

TEST_F(SocketInputTest, QueuesMessagesInOrder) {
  for (const char* text : {"one", "two"}) {
    Receive(input_, text);
    input_.QueueMessage();
    EXPECT_EQ(input_.buffer().size(), 0u);
  }
  EXPECT_EQ(*input_.front(), "one");
  input_.Pop();
  EXPECT_EQ(*input_.front(), "two");
  input_.Pop();
  EXPECT_TRUE(input_.empty());
}

TEST_F(SocketInputTest, HasRoomForTheBytesOfOneMessage) {
  Receive(input_, std::string(kMaxMessageBytes - 1, 'x'));
  input_.QueueMessage();
  EXPECT_TRUE(input_.HasRoom());
  Receive(input_, "x");
  input_.QueueMessage();
  EXPECT_FALSE(input_.HasRoom());
  input_.Pop();
  EXPECT_TRUE(input_.HasRoom());
}

TEST_F(SocketInputTest, HasRoomForALimitedNumberOfMessages) {
  for (size_t i = 0; i < SocketInput::kMaxWaiting; ++i) {
    EXPECT_TRUE(input_.HasRoom());
    input_.QueueMessage();
  }
  EXPECT_FALSE(input_.HasRoom());
}

TEST_F(SocketInputTest, RefusesAMessageInTooManyPieces) {
  int pieces = 0;
  while (input_.CountPiece()) ++pieces;
  EXPECT_EQ(pieces, 1'024);
  Receive(input_, std::string(320, 'x'));  // pays for ten more
  EXPECT_TRUE(input_.CountPiece());
  input_.QueueMessage();  // the next message starts at zero
  for (pieces = 0; input_.CountPiece();) ++pieces;
  EXPECT_EQ(pieces, 1'024);
}

TEST_F(SocketInputTest, AllowsABurstOfMessages) {
  int messages = 0;
  while (input_.AllowMessage()) ++messages;
  EXPECT_GE(messages, 50);
}

TEST_F(SocketInputTest, ChargesAMessageUntilAWorkerIsDone) {
  BodyBudget budget(100'000);
  SocketInput input(1 << 20, 5, budget);
  Receive(input, std::string(BodyShare::kFreeBytes + 60'000, 'x'));
  EXPECT_TRUE(input.Charge("owner"));
  EXPECT_FALSE(budget.Take("other", 45'000));
  input.QueueMessage();
  EXPECT_TRUE(input.Charge("owner"));
  EXPECT_FALSE(budget.Take("other", 45'000));
  input.Pop();
  EXPECT_TRUE(input.Charge("owner"));
  EXPECT_FALSE(budget.Take("other", 45'000));
  input.EndWork("owner");
  EXPECT_TRUE(budget.Take("other", 45'000));
}

class FaceCallsTest : public ::testing::Test {
 protected:
  std::vector<std::string> notices_;
  bool answers_ = false;
  FaceCalls calls_;
};

TEST_F(FaceCallsTest, IsBusyUntilTheOpeningAndDuringCallsAndAnswers) {
  calls_.Open({.on_opened = [] {}, .on_message = nullptr, .on_closed = nullptr, .busy = [this] { return answers_; }});
  EXPECT_TRUE(calls_.opening());
  EXPECT_TRUE(calls_.Busy());
  calls_.SetOpening(false);
  EXPECT_FALSE(calls_.Busy());
  calls_.SetWorking(true);
  EXPECT_TRUE(calls_.Busy());
  calls_.SetWorking(false);
  answers_ = true;
  EXPECT_TRUE(calls_.Busy());
}

TEST_F(FaceCallsTest, HasNoOpeningForAFaceThatExpectsNone) {
  calls_.Open({.on_message = nullptr, .on_closed = nullptr, .busy = nullptr});
  EXPECT_FALSE(calls_.opening());
  EXPECT_FALSE(calls_.Busy());
}

TEST_F(FaceCallsTest, ClosesTheFaceOnce) {
  calls_.Close();  // not open
  calls_.Open({.on_message = nullptr, .on_closed = [this] { notices_.emplace_back("closed"); }, .busy = nullptr});
  calls_.Close();
  calls_.Close();
  EXPECT_EQ(notices_, std::vector<std::string>{"closed"});
  EXPECT_EQ(calls_.face(), nullptr);
}

TEST_F(FaceCallsTest, ReportsExceptionsToThePeer) {
  Outbox outbox([] {});
  calls_.Run([] { throw std::bad_alloc(); }, outbox);
  const std::optional<std::string> error = outbox.Take();
  ASSERT_TRUE(error);
  EXPECT_NE(error->find("no memory left"), std::string::npos) << *error;
  EXPECT_FALSE(outbox.TakeClose());
  calls_.Run([] { throw std::runtime_error("x"); }, outbox);
  const std::optional<Outbox::Closing> close = outbox.TakeClose();
  ASSERT_TRUE(close);
  EXPECT_EQ(close->code, 1011);
}

TEST(SocketActivityTest, MeasuresFromTheLastMessageAndTheLastBytes) {
  const SocketActivity::TimePoint start{};
  SocketActivity activity;
  activity.NoteOpened(start);
  activity.NoteBytes(start + milliseconds(5));
  EXPECT_FALSE(activity.HasNoMessageFor(milliseconds(10), start + milliseconds(9)));
  EXPECT_TRUE(activity.HasNoMessageFor(milliseconds(10), start + milliseconds(10)));
  EXPECT_FALSE(activity.IsSilentFor(milliseconds(10), start + milliseconds(15)));
  EXPECT_TRUE(activity.IsSilentFor(milliseconds(10), start + milliseconds(16)));
  activity.NoteMessage(start + milliseconds(3));
  EXPECT_EQ(activity.last_message(), start + milliseconds(3));
}

TEST(SocketActivityTest, HasOnePendingPing) {
  SocketActivity activity;
  EXPECT_TRUE(activity.BeginPing());
  EXPECT_FALSE(activity.BeginPing());
  activity.EndPing();
  EXPECT_TRUE(activity.BeginPing());
}

}  // namespace
}  // namespace ringside::testing
