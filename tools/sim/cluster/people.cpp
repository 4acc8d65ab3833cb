#include "tools/sim/cluster/people.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace ringside {
namespace {

constexpr double kBlindRetryS = 5;
constexpr double kLongest = 2048;  // of an input or an output, in tokens
constexpr double kNewcomers = 0.5;

}  // namespace

People::People(const PeopleOptions& options, size_t count, uint64_t seed)
    : options_(options), random_(seed), all_(count) {
  for (size_t id = 0; id < count;) {
    const double drawn = options.key_alpha == 0 ? 1 : std::pow(1 - Random(), -1 / options.key_alpha);
    const auto size = static_cast<size_t>(std::clamp(drawn, 1.0, std::max(options.key_most, 1.0)));
    const size_t end = std::min(id + size, count);
    routes_.push_back({.key = random_()});
    sizes_.push_back(static_cast<uint32_t>(end - id));
    for (; id < end; ++id) all_[id].route = static_cast<uint32_t>(routes_.size() - 1);
  }
}

double People::PauseS() {
  if (Random() < options_.long_pause_share) return -options_.away_s * std::log(1 - Random());
  return options_.pause_s * (0.5 + Random());
}

double People::Length(double mean) {
  if (options_.tail_sigma == 0) return mean;
  const double sigma = options_.tail_sigma;
  const double normal = std::sqrt(-2 * std::log(1 - Random())) * std::cos(2 * std::numbers::pi * Random());
  return std::clamp(std::round(mean * std::exp(sigma * normal - sigma * sigma / 2)), 1.0, kLongest);
}

void People::Ask(Conversation& one) {
  const double first = options_.first_least * std::pow(options_.first_most / options_.first_least, Random());
  one.input = static_cast<float>(one.turn == 0 ? first : Length(options_.input));
  one.output = static_cast<float>(Length(options_.output));
}

bool People::IsLast(const Conversation& one) {
  return options_.tail_sigma == 0 ? one.turn >= options_.turns : Random() < 1 / options_.turns;
}

void People::Renew(Conversation& one) {
  const uint32_t route = one.route;
  one = {};
  one.route = route;
  if (sizes_[route] == 1 && Random() < kNewcomers) routes_[route] = {.key = random_()};
}

double People::RetryS(double advised_s) {
  return options_.honor_retry_after ? advised_s * (1 + options_.jitter * Random()) : kBlindRetryS;
}

}  // namespace ringside
