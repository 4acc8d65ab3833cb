#include "ws/transport/http/http_phase.h"

#include "ws/transport/transitions.h"

namespace ringside {
namespace {

using enum HttpPhase::State;

constexpr std::array<Transition<HttpPhase::State>, 15> kHttpTransitions = {{
    {kIdle, kReceiving},
    {kReceiving, kContinuing},
    {kContinuing, kReceiving},
    {kReceiving, kTimedOut},
    {kTimedOut, kAnswering},
    {kReceiving, kAnswering},
    {kAnswering, kIdle},
    {kAnswering, kGivenUp},
    {kAnswering, kLingering},
    {kReceiving, kWatching},
    {kAnswering, kWatching},
    {kWatching, kWaiting},
    {kWatching, kGiven},
    {kWaiting, kAnswering},
    {kGiven, kAnswering},
}};

}  // namespace

bool HttpPhase::Enter(State next) {
  if (!IsAllowed(kHttpTransitions, state_, next)) return false;
  state_ = next;
  return true;
}

}  // namespace ringside
