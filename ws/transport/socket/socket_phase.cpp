#include "ws/transport/socket/socket_phase.h"

#include "ws/transport/transitions.h"

namespace ringside {
namespace {

using enum SocketPhase::State;

constexpr std::array<Transition<SocketPhase::State>, 7> kSocketTransitions = {{
    {kHandshake, kOpen},
    {kOpen, kRefused},
    {kOpen, kClosing},
    {kOpen, kFinished},
    {kRefused, kClosing},
    {kRefused, kFinished},
    {kClosing, kFinished},
}};

}  // namespace

bool SocketPhase::Enter(State next) {
  if (!IsAllowed(kSocketTransitions, state_.load(), next)) return false;
  state_ = next;
  return true;
}

}  // namespace ringside
