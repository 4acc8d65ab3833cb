// Placement of conversations on engines, by numbers alone: the share of turns that find their conversation in place,
// and that an overloaded engine gives some away.
#include "engine/fleet/placement.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <queue>
#include <random>
#include <vector>

namespace ringside {
namespace {

struct Crowd {
  size_t engines = 2;
  uint64_t conversations = 256;
  double pause_s = 5;     // mean, between turns
  double turn_s = 0.5;    // mean, alone on an engine
  double beside_s = 0.2;  // additional time per concurrent turn
  int turns = 40;         // per conversation
  bool on_first = false;  // all start on the first engine
};

struct Outcome {
  double moved = 0;       // share of turns whose conversation had to migrate since the last one
  double difference = 0;  // mean difference of turns between the most and the least loaded engine, in the last quarter
};

/// Random pauses and turn lengths; every cache fits in its engine's slots.
class SimulatedCrowd {
 public:
  explicit SimulatedCrowd(const Crowd& crowd) : crowd_(crowd), placement_(crowd.engines), loads_(crowd.engines) {}

  Outcome Run() {
    for (TimelineId id = 1; id <= crowd_.conversations; ++id) Plan(Exponential(crowd_.pause_s), id, false);
    std::vector<int> left(crowd_.conversations + 1, crowd_.turns);
    const auto all = static_cast<double>(crowd_.conversations) * crowd_.turns;
    double sum = 0, samples = 0;
    while (!events_.empty()) {
      const Event event = events_.top();
      events_.pop();
      now_s_ = event.at_s;
      if (event.ends) {
        placement_.End(event.id, placement_.Find(event.id)->engine);
        if (--left[event.id] > 0) Plan(Exponential(crowd_.pause_s), event.id, false);
        continue;
      }
      Begin(event.id, left[event.id] == crowd_.turns);
      if (++begun_ < 0.75 * all) continue;
      sum += Difference();
      samples += 1;
    }
    return {moved_ / (begun_ - static_cast<double>(crowd_.conversations)), sum / samples};
  }

 private:
  struct Event {
    double at_s;
    TimelineId id;
    bool ends;  // a turn; otherwise one starts
    bool operator>(const Event& other) const { return at_s > other.at_s; }
  };

  double Exponential(double mean) {
    // Not from the standard library, whose distributions vary between implementations.
    return -mean * std::log(1 - static_cast<double>(random_() >> 11) * 0x1p-53);
  }
  void Plan(double in_s, TimelineId id, bool ends) { events_.push({now_s_ + in_s, id, ends}); }

  void Begin(TimelineId id, bool first) {
    const Placement::Pin* pin = placement_.Find(id);
    if (pin == nullptr && !first) moved_ += 1;
    const size_t engine = pin != nullptr ? pin->engine : first && crowd_.on_first ? 0 : placement_.LeastLoaded(loads_);
    placement_.Begin(id, engine, "conv");
    for (size_t most = placement_.CountToShed(engine); most > 0; --most) (void)placement_.PopIdle(engine);
    const double beside = static_cast<double>(placement_.turns(engine) - 1);
    Plan(Exponential(crowd_.turn_s + crowd_.beside_s * beside), id, true);
  }

  double Difference() const {
    int64_t least = placement_.turns(0), most = least;
    for (size_t i = 1; i < crowd_.engines; ++i) {
      least = std::min(least, placement_.turns(i));
      most = std::max(most, placement_.turns(i));
    }
    return static_cast<double>(most - least);
  }

  const Crowd crowd_;
  Placement placement_;
  const std::vector<Placement::Load> loads_;
  std::mt19937_64 random_{1};
  std::priority_queue<Event, std::vector<Event>, std::greater<>> events_;
  double now_s_ = 0, begun_ = 0, moved_ = 0;
};

TEST(PlacementTest, ConversationsStayFor99PercentOfTurns) {
  for (const size_t engines : {2, 4}) {
    for (const double pause_s : {0.001, 2.0, 5.0, 20.0, 60.0}) {
      for (const double beside_s : {0.02, 0.2}) {
        const Outcome outcome = SimulatedCrowd({.engines = engines, .pause_s = pause_s, .beside_s = beside_s}).Run();
        EXPECT_LT(outcome.moved, engines == 2 ? 0.01 : 0.02)
            << engines << " engines, pauses of " << pause_s << " s, " << beside_s;
      }
    }
  }
}

TEST(PlacementTest, ConversationsOnOneEngineSpreadEvenly) {
  for (const size_t engines : {2, 4}) {
    const Outcome all = SimulatedCrowd({.engines = engines, .on_first = true}).Run();
    const Outcome even = SimulatedCrowd({.engines = engines}).Run();
    EXPECT_LT(all.difference, 2 * even.difference) << engines;
    EXPECT_LT(all.moved, 0.05) << "and no more than have to";
  }
}

TEST(PlacementTest, DoesNotMigrateForSmallGains) {
  Placement placement(2);
  placement.Begin(100, 0, "idle");
  placement.End(100, 0);
  for (TimelineId id = 1; id <= 8; ++id) {
    placement.Begin(id, 0, "conv");
    EXPECT_EQ(placement.CountToShed(0), 0u) << id;
  }
  placement.Begin(9, 0, "conv");
  EXPECT_EQ(placement.CountToShed(0), 1u) << "nine turns here, none there";
  EXPECT_EQ(placement.CountToShed(1), 0u);
  placement.Begin(10, 1, "conv");
  EXPECT_EQ(placement.CountToShed(0), 0u) << "no more than chance may bring";
  placement.SetDrains(1, true);
  placement.End(10, 1);
  EXPECT_EQ(placement.CountToShed(0), 0u) << "there is nowhere else to go";
  EXPECT_EQ(placement.CountToShed(1), 1u);
}

TEST(PlacementTest, LongestIdleMigrateFirstAndUnownedNever) {
  Placement placement(2);
  for (const TimelineId id : {1, 2, 3, 4}) placement.Begin(id, 0, id == 3 ? "" : "conv");
  for (const TimelineId id : {4, 3, 2}) placement.End(id, 0);
  EXPECT_EQ(placement.PopIdle(0), 4u);
  EXPECT_EQ(placement.PopIdle(0), 2u);
  EXPECT_EQ(placement.PopIdle(0), std::nullopt) << "one has no owner, one answers";
  EXPECT_EQ(placement.conversations(0), 2u);
}

TEST(PlacementTest, PrefersServingThenDrainingThenFailedEngines) {
  Placement placement(3);
  placement.SetFailed(0);
  placement.SetDrains(1, true);
  placement.Begin(1, 2, "conv");
  EXPECT_EQ(placement.LeastLoaded({{}, {}, {.refuses = true, .used = 0.9}}), 2u);
  EXPECT_FALSE(placement.OthersServe(2));
  placement.SetFailed(2);
  EXPECT_EQ(placement.LeastLoaded({{}, {}, {}}), 1u);
  placement.SetDrains(1, false);
  EXPECT_TRUE(placement.OthersServe(2));
}

TEST(PlacementTest, PrefersEnginesThatDoNotRefuseTheTurn) {
  Placement placement(3);
  for (const TimelineId id : {1, 2, 3}) placement.Begin(id, 2, "conv");
  placement.Begin(4, 1, "conv");
  EXPECT_EQ(placement.LeastLoaded({{.refuses = true}, {.refuses = true}, {}}), 2u) << "although it has the most turns";
  EXPECT_EQ(placement.LeastLoaded({{.refuses = true}, {}, {}}), 1u);
  EXPECT_EQ(placement.LeastLoaded({{.refuses = true}, {.refuses = true}, {.refuses = true}}), 0u);
  placement.SetDrains(2, true);
  EXPECT_EQ(placement.LeastLoaded({{.refuses = true}, {.refuses = true}, {}}), 0u);
}

}  // namespace
}  // namespace ringside
