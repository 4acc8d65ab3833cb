#include "tools/sim/load.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <random>

namespace ringside {
namespace {

// The standard library's generator, but not its distributions, which vary between implementations.
class Draw {
 public:
  explicit Draw(uint64_t seed) : bits_(seed) {}
  /// In [0, 1).
  double Uniform() { return static_cast<double>(bits_() >> 11) * 0x1p-53; }
  double Exponential(double mean) { return -mean * std::log1p(-Uniform()); }
  /// With this mean, where `spread` is the standard deviation of the logarithm.
  int64_t LogNormal(double mean, double spread) {
    const double radius = std::sqrt(-2 * std::log1p(-Uniform())), angle = 2 * std::numbers::pi * Uniform();
    const double value = mean * std::exp(spread * radius * std::cos(angle) - spread * spread / 2);
    return std::clamp<int64_t>(std::llround(value), 1, 4096);
  }

 private:
  std::mt19937_64 bits_;
};

}  // namespace

Result<std::vector<PlannedConversation>> PlanLoad(const LoadOptions& options) {
  const auto is = [](const std::string& name, std::initializer_list<const char*> known) {
    return std::any_of(known.begin(), known.end(), [&](const char* other) { return name == other; });
  };
  if (!is(options.arrivals, {"together", "spread", "poisson", "bursts", "crowd"})) {
    return InvalidArgument("no such arrivals: " + options.arrivals);
  }
  if (!is(options.lengths, {"fixed", "sharegpt", "long"}))
    return InvalidArgument("no such lengths: " + options.lengths);
  Draw draw(options.seed);
  std::vector<PlannedConversation> plan;
  double poisson_ms = 0;
  for (int64_t i = 0; i < options.conversations; ++i) {
    PlannedConversation conversation{.user = i % std::max<int64_t>(1, options.users)};
    if (options.arrivals == "spread") conversation.begin_ms = options.spread_ms * draw.Uniform();
    if (options.arrivals == "bursts") {
      conversation.begin_ms = options.spread_ms * static_cast<double>(i / std::max<int64_t>(1, options.burst));
    }
    if (options.arrivals == "crowd") {
      conversation.user = i + 1 == options.conversations ? 1 : 0;
      conversation.begin_ms = conversation.user == 1 ? options.spread_ms : 0;
    }
    if (options.arrivals == "poisson") {
      conversation.begin_ms = poisson_ms += draw.Exponential(1e3 / options.per_second);
    }
    for (int64_t k = 0; k < options.turns; ++k) {
      PlannedTurn turn{.input = k == 0 ? options.first : options.add, .output = options.write};
      if (options.lengths == "long" && k == 0 && i % 10 == 9) turn.input = options.long_first;
      if (options.lengths == "sharegpt") {
        turn.input = draw.LogNormal(161, 1.3);
        turn.output = draw.LogNormal(338, 0.9);
      }
      if (k > 0 && options.pause_ms > 0) turn.pause_ms = options.pause_ms * (0.5 + draw.Uniform());
      conversation.turns.push_back(turn);
    }
    plan.push_back(std::move(conversation));
  }
  return plan;
}

}  // namespace ringside
