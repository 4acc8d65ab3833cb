// Checks of a state machine against its drawing: each transition that it shows, and no others.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <map>
#include <string>
#include <vector>

namespace ringside::testing {

template <class Phase>
struct DrawnTransition {
  std::string name;
  typename Phase::State from, to;
};

/// Brings a new machine to `state` along the shortest path of the drawing.
template <class Phase>
void Bring(const std::vector<DrawnTransition<Phase>>& drawing, typename Phase::State state, Phase& phase) {
  using State = typename Phase::State;
  std::map<State, std::vector<State>> paths = {{State{}, {}}};
  for (std::deque<State> reached = {State{}}; !reached.empty(); reached.pop_front()) {
    for (const DrawnTransition<Phase>& transition : drawing) {
      if (transition.from != reached.front() || paths.contains(transition.to)) continue;
      paths[transition.to] = paths[transition.from];
      paths[transition.to].push_back(transition.to);
      reached.push_back(transition.to);
    }
  }
  ASSERT_TRUE(paths.contains(state));
  for (const State next : paths[state]) ASSERT_TRUE(phase.Enter(next));
}

template <class Phase>
void ExpectEntered(const std::vector<DrawnTransition<Phase>>& drawing, const DrawnTransition<Phase>& transition) {
  Phase phase;
  Bring(drawing, transition.from, phase);
  EXPECT_TRUE(phase.Enter(transition.to));
  EXPECT_TRUE(phase.Is(transition.to));
}

/// `states`: all of the machine.
template <class Phase>
void ExpectNoOthers(const std::vector<DrawnTransition<Phase>>& drawing,
                    const std::vector<typename Phase::State>& states) {
  for (const auto from : states) {
    for (const auto to : states) {
      const bool drawn = std::any_of(drawing.begin(), drawing.end(), [&](const DrawnTransition<Phase>& transition) {
        return transition.from == from && transition.to == to;
      });
      if (drawn) continue;
      Phase phase;
      Bring(drawing, from, phase);
      EXPECT_FALSE(phase.Enter(to)) << static_cast<int>(from) << " to " << static_cast<int>(to);
      EXPECT_TRUE(phase.Is(from));
    }
  }
}

}  // namespace ringside::testing
