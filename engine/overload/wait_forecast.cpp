#include "engine/overload/wait_forecast.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/check.h"

namespace ringside {

BinnedAmounts::BinnedAmounts(double origin, double width) : width_(width), first_(std::floor(origin / width) * width) {}

size_t BinnedAmounts::BinOf(double at) const {
  const double bin = std::floor((at - first_) / width_);
  return static_cast<size_t>(std::clamp(bin, 0.0, static_cast<double>(kBins - 1)));
}

void BinnedAmounts::Add(double from, double amount) {
  for (size_t bin = BinOf(from); amount > 0; ++bin) {
    const double end = first_ + static_cast<double>(bin + 1) * width_;
    const double part = bin + 1 == kBins ? amount : std::min(amount, end - from);
    bins_[bin] += part;
    amount -= part;
    from = end;
  }
}

double BinnedAmounts::Through(double at) const {
  return std::accumulate(bins_.begin(), bins_.begin() + static_cast<std::ptrdiff_t>(BinOf(at)) + 1, 0.0);
}

WaitForecast::Place WaitForecast::PlaceOf(const std::string& tenant) const {
  const auto found = places_.find(tenant);
  return found != places_.end() ? found->second : Place{served_.AtArrival(tenant, least_served_), 0};
}

void WaitForecast::AddArrived(const std::string& tenant, const Arrived& arrived) {
  Place place = PlaceOf(tenant);
  tokens_.Add(place.level, static_cast<double>(arrived.tokens));
  turns_.Add(static_cast<double>(place.turns), static_cast<double>(arrived.turns));
  place.level += static_cast<double>(arrived.tokens);
  place.turns += arrived.turns;
  places_[tenant] = place;
}

void WaitForecast::RemoveArrived(const std::string& tenant, int64_t tokens) {
  const auto found = arrived_.find(tenant);
  CHECK(found != arrived_.end());
  found->second.tokens -= tokens;
  if (--found->second.turns == 0) arrived_.erase(found);
}

void WaitForecast::Arrive(const std::string& tenant, int64_t tokens) {
  std::lock_guard lock(mutex_);
  Arrived& all = arrived_[tenant];
  all.tokens += tokens;
  ++all.turns;
  AddArrived(tenant, {tokens, 1});
}

void WaitForecast::Withdraw(const std::string& tenant, int64_t tokens) {
  std::lock_guard lock(mutex_);
  RemoveArrived(tenant, tokens);
  Rebuild();
}

void WaitForecast::Publish(Load load) {
  std::lock_guard lock(mutex_);
  load_ = std::move(load);
  for (const auto& [tenant, tokens] : received_) RemoveArrived(tenant, tokens);
  received_.clear();
  Rebuild();
}

void WaitForecast::Rebuild() {
  least_served_ = std::numeric_limits<double>::infinity();
  most_running_ = 0;
  for (const auto& [name, tenant] : load_.tenants) {
    least_served_ = std::min(least_served_, tenant.served);
    most_running_ = std::max(most_running_, tenant.running);
  }
  places_.clear();
  tokens_ = BinnedAmounts(served_.Start(least_served_), kServedBucket);
  turns_ = BinnedAmounts(0, 1);
  for (const auto& [name, tenant] : load_.tenants) {
    tokens_.Add(tenant.served, static_cast<double>(tenant.tokens));
    turns_.Add(static_cast<double>(tenant.running), static_cast<double>(tenant.waiting));
    places_[name] = {tenant.served + static_cast<double>(tenant.tokens), tenant.running + tenant.waiting};
  }
  for (const auto& [name, arrived] : arrived_) AddArrived(name, arrived);
}

double WaitForecast::Ns(double tokens, double turns, bool needs_slot) const {
  if (tokens <= 0 && turns <= 0) return 0;
  const double beyond = turns + 1 - static_cast<double>(load_.free_slots);
  return tokens * load_.ns_per_token + (needs_slot ? std::max(beyond, 0.0) * load_.ns_per_end : 0);
}

double WaitForecast::WaitNs(const std::string& tenant) const {
  std::lock_guard lock(mutex_);
  const Place place = PlaceOf(tenant);
  const bool preempts = place.turns == 0 || most_running_ >= place.turns + 2;
  return Ns(tokens_.Through(place.level), turns_.Through(static_cast<double>(place.turns)), !preempts);
}

double WaitForecast::LongestNs() const {
  constexpr double kEnd = std::numeric_limits<double>::infinity();
  std::lock_guard lock(mutex_);
  return Ns(tokens_.Through(kEnd), turns_.Through(kEnd), true);
}

double WaitForecast::ns_per_token() const {
  std::lock_guard lock(mutex_);
  return load_.ns_per_token;
}

}  // namespace ringside
