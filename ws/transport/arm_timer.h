// The one way to set a timer of a connection.
// THREAD: the timer's strand.
#pragma once

#include <boost/system/error_code.hpp>
#include <memory>

#include "ws/transport/server_context.h"

namespace ringside {

/// Calls `action(owner)` at `end` unless the timer is cancelled or set again, or the owner has been destroyed.
/// REQUIRES: `timer` is a member of `owner`.
template <class Owner, class Action>
void ArmTimer(Timer& timer, Timer::time_point end, std::weak_ptr<Owner> owner, Action action) {
  timer.expires_at(end);
  timer.async_wait([owner = std::move(owner), &timer, action](boost::system::error_code cancelled) {
    const auto self = owner.lock();
    // A timer that was set again after it expired still reports success: only its current expiry counts.
    if (cancelled || !self || timer.expiry() > Timer::clock_type::now()) return;
    action(*self);
  });
}

}  // namespace ringside
