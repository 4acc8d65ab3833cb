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
  double Uniform(double least, double end) { return least + (end - least) * Uniform(); }
  int64_t Whole(int64_t least, int64_t end) {
    return static_cast<int64_t>(Uniform(static_cast<double>(least), static_cast<double>(end)));
  }
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

using Plan = std::vector<PlannedConversation>;

// 64 interactive conversations that pause, next to 8 clients that send one long prompt after the other.
Plan MixedLoad(const LoadOptions& options, Draw& draw) {
  constexpr int64_t kInteractive = 64, kLong = 8, kMostTurns = 200;
  const double end_ms = 1e3 * options.seconds;
  Plan plan;
  for (int64_t i = 0; i < kInteractive; ++i) {
    PlannedConversation conversation{.begin_ms = draw.Uniform(0, 3e3), .role = "interactive", .until_ms = end_ms};
    for (int64_t k = 0; k < kMostTurns; ++k) {
      conversation.turns.push_back({.pause_ms = draw.Uniform(2e3, 5e3), .input = k == 0 ? 512 : 64, .output = 64});
    }
    plan.push_back(std::move(conversation));
  }
  for (int64_t i = 0; i < kLong; ++i) {
    PlannedConversation prompts{.begin_ms = 4e3, .role = "long", .is_stateless = true, .until_ms = end_ms};
    for (int64_t k = 0; k < kMostTurns; ++k) {
      prompts.turns.push_back({.input = draw.Whole(8'000, 16'000), .output = 32});
    }
    plan.push_back(std::move(prompts));
  }
  return plan;
}

// 32 agents with a common prefix of 12,000 tokens and no pauses.
Plan AgentsLoad(const LoadOptions& options, Draw& draw) {
  constexpr int64_t kAgents = 32, kTurns = 20, kPrefix = 12'000;
  Plan plan;
  for (int64_t i = 0; i < kAgents; ++i) {
    PlannedConversation agent{.role = "agent", .shared = kPrefix, .until_ms = 1e3 * options.seconds};
    for (int64_t k = 0; k < kTurns; ++k) {
      agent.turns.push_back({.input = draw.Whole(200, 1'500) + (k == 0 ? kPrefix : 0), .output = draw.Whole(50, 300)});
    }
    plan.push_back(std::move(agent));
  }
  return plan;
}

// Requests of 512 to 2,048 tokens that arrive at a mean rate, whatever waits.
Plan RequestsLoad(const LoadOptions& options, Draw& draw) {
  Plan plan;
  const double mean_ms = 1e3 / options.per_second;
  for (double at_ms = draw.Exponential(mean_ms); at_ms < 1e3 * options.seconds; at_ms += draw.Exponential(mean_ms)) {
    plan.push_back({.begin_ms = at_ms, .turns = {{.input = draw.Whole(512, 2'048), .output = 128}}, .role = "request"});
  }
  return plan;
}

struct NamedLoad {
  const char* name;
  Plan (*plan)(const LoadOptions& options, Draw& draw);
};
constexpr NamedLoad kNamedLoads[] = {{"mixed", MixedLoad}, {"agents", AgentsLoad}, {"requests", RequestsLoad}};

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
  if (!options.scenario.empty()) {
    const auto* const named = std::ranges::find(kNamedLoads, options.scenario, &NamedLoad::name);
    if (named == std::end(kNamedLoads)) return InvalidArgument("no such scenario: " + options.scenario);
    return named->plan(options, draw);
  }
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
