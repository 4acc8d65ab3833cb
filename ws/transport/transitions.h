// Tables of the transitions that a state machine allows.
// THREAD: any.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>

namespace ringside {

template <class State>
struct Transition {
  State from, to;
};

template <class State, size_t kSize>
constexpr bool IsAllowed(const std::array<Transition<State>, kSize>& table, State from, State to) {
  return std::any_of(table.begin(), table.end(),
                     [&](const Transition<State>& allowed) { return allowed.from == from && allowed.to == to; });
}

}  // namespace ringside
