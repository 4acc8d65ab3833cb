// The state machine of a WebSocket.
#include "ws/transport/socket/socket_phase.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/ws/transport/phase_transitions.h"

namespace ringside::testing {
namespace {

using SocketState = SocketPhase::State;
using SocketTransition = DrawnTransition<SocketPhase>;

const std::vector<SocketState> kSocketStates = {SocketState::kHandshake, SocketState::kOpen, SocketState::kRefused,
                                                SocketState::kClosing, SocketState::kFinished};
const std::vector<SocketTransition> kSocketDrawing = {
    {"Upgraded", SocketState::kHandshake, SocketState::kOpen},
    {"MessageTooLarge", SocketState::kOpen, SocketState::kRefused},
    {"ClosedByServer", SocketState::kOpen, SocketState::kClosing},
    {"Lost", SocketState::kOpen, SocketState::kFinished},
    {"ClosedByServerAfterRefusal", SocketState::kRefused, SocketState::kClosing},
    {"LostAfterRefusal", SocketState::kRefused, SocketState::kFinished},
    {"CloseEnded", SocketState::kClosing, SocketState::kFinished},
};

class SocketPhaseTest : public ::testing::TestWithParam<SocketTransition> {};

TEST_P(SocketPhaseTest, Enters) { ExpectEntered(kSocketDrawing, GetParam()); }

INSTANTIATE_TEST_SUITE_P(Transitions, SocketPhaseTest, ::testing::ValuesIn(kSocketDrawing),
                         [](const auto& info) { return info.param.name; });

TEST(SocketPhaseTable, HasNoOtherTransitions) { ExpectNoOthers(kSocketDrawing, kSocketStates); }

TEST(SocketPhaseTable, ReadsAndWritesByState) {
  std::string reads, writes, finished;
  for (const SocketState state : kSocketStates) {
    SocketPhase phase;
    Bring(kSocketDrawing, state, phase);
    reads += phase.reads() ? '1' : '0';
    writes += phase.writes() ? '1' : '0';
    finished += phase.finished() ? '1' : '0';
  }
  EXPECT_EQ(reads, "01000");
  EXPECT_EQ(writes, "01100");  // the refusal of a message is still written
  EXPECT_EQ(finished, "00001");
}

}  // namespace
}  // namespace ringside::testing
