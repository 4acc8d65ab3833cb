// The state machine of an HTTP connection.
#include "ws/transport/http/http_phase.h"

#include <gtest/gtest.h>

#include <vector>

#include "tests/ws/transport/phase_transitions.h"

namespace ringside::testing {
namespace {

using HttpState = HttpPhase::State;
using HttpTransition = DrawnTransition<HttpPhase>;

const std::vector<HttpState> kHttpStates = {
    HttpState::kIdle,    HttpState::kReceiving, HttpState::kContinuing, HttpState::kTimedOut, HttpState::kAnswering,
    HttpState::kGivenUp, HttpState::kWatching,  HttpState::kWaiting,    HttpState::kGiven,    HttpState::kLingering};
const std::vector<HttpTransition> kHttpDrawing = {
    {"FirstByte", HttpState::kIdle, HttpState::kReceiving},
    {"ContinueAsked", HttpState::kReceiving, HttpState::kContinuing},
    {"ContinueWritten", HttpState::kContinuing, HttpState::kReceiving},
    {"Deadline", HttpState::kReceiving, HttpState::kTimedOut},
    {"RefusedAfterDeadline", HttpState::kTimedOut, HttpState::kAnswering},
    {"CompleteOrRefused", HttpState::kReceiving, HttpState::kAnswering},
    {"KeptAlive", HttpState::kAnswering, HttpState::kIdle},
    {"ServerStops", HttpState::kAnswering, HttpState::kGivenUp},
    {"NotKeptAlive", HttpState::kAnswering, HttpState::kLingering},
    {"RefusalDelayed", HttpState::kReceiving, HttpState::kWatching},
    {"AnswerLater", HttpState::kAnswering, HttpState::kWatching},
    {"BufferFull", HttpState::kWatching, HttpState::kWaiting},
    {"AnswerKnownWhileReading", HttpState::kWatching, HttpState::kGiven},
    {"AnswerKnown", HttpState::kWaiting, HttpState::kAnswering},
    {"ReadEnded", HttpState::kGiven, HttpState::kAnswering},
};

class HttpPhaseTest : public ::testing::TestWithParam<HttpTransition> {};

TEST_P(HttpPhaseTest, Enters) { ExpectEntered(kHttpDrawing, GetParam()); }

INSTANTIATE_TEST_SUITE_P(Transitions, HttpPhaseTest, ::testing::ValuesIn(kHttpDrawing),
                         [](const auto& info) { return info.param.name; });

TEST(HttpPhaseTable, HasNoOtherTransitions) { ExpectNoOthers(kHttpDrawing, kHttpStates); }

}  // namespace
}  // namespace ringside::testing
