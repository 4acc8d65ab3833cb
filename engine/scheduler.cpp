#include "engine/scheduler.h"

#include <algorithm>
#include <cmath>
#include <deque>
#include <functional>
#include <limits>
#include <numeric>
#include <set>
#include <tuple>
#include <utility>

#include "base/check.h"

namespace ringside {
namespace {

// Trims the last prompts until the step is a multiple of the tile, if that costs prompts little and no indivisible
// chunk. A prompt's end is trimmed only if another step takes little more time than a tile.
void RoundDown(std::span<const StepTurn> turns, std::vector<size_t> given, const StepLimits& limits,
               std::vector<int64_t>& take) {
  const auto ends = [&](size_t i) { return take[i] == turns[i].remaining; };
  const auto divisible = [&](size_t i) { return take[i] - (turns[i].least > 1 ? turns[i].least : 0); };
  int64_t of_prompts = 0, trimmable = 0;
  for (const size_t i : given) of_prompts += take[i];
  int64_t beyond = std::accumulate(take.begin(), take.end(), int64_t{0}) % limits.tile;
  constexpr double kTilesOfAStep = 2;  // other prompts often need the step anyway
  const bool trims_ends = limits.step_work <= kTilesOfAStep * static_cast<double>(limits.tile);
  if (!trims_ends) std::erase_if(given, ends);
  for (const size_t i : given) trimmable += divisible(i);
  if (beyond > std::min(of_prompts / 4, trimmable)) return;
  for (; beyond > 0; given.pop_back()) {
    const int64_t back = std::min(beyond, divisible(given.back()));
    take[given.back()] -= back;
    beyond -= back;
  }
}

// Fills the last tile with up to `most` rows of prompts that have none, the next one first: they take no time.
void FillTile(std::span<const StepTurn> turns, std::span<const size_t> waiting, const StepLimits& limits, int64_t most,
              std::vector<int64_t>& take) {
  const int64_t beyond = std::accumulate(take.begin(), take.end(), int64_t{0}) % limits.tile;
  int64_t left = beyond == 0 ? 0 : std::min(most, limits.tile - beyond);
  for (const size_t i : waiting) {
    const int64_t rows = std::min({left, turns[i].remaining, limits.chunk});
    if (rows < turns[i].least) continue;
    take[i] = rows;
    left -= rows;
  }
}

// Gives rows to the drafts of decoding turns while any are left.
void AddDrafts(std::span<const StepTurn> turns, int64_t left, std::vector<int64_t>& take) {
  for (size_t i = 0; i < turns.size(); ++i) {
    if (take[i] == 0) continue;
    const int64_t rows = std::min(turns[i].drafts, left);
    take[i] += rows;
    left -= rows;
  }
}

// By tenant: whether it was served clearly more than another one that has a turn in the step.
std::vector<bool> TenantsAhead(std::span<const StepTurn> turns, std::span<const double> served) {
  double least = std::numeric_limits<double>::infinity();
  for (const StepTurn& turn : turns) {
    if (turn.remaining > 0) least = std::min(least, served[turn.tenant]);
  }
  std::vector<bool> ahead;
  for (const double tokens : served) ahead.push_back(tokens >= least + kServedMargin);
  return ahead;
}

// Bucket of served tokens.
double ServedBucket(double served) { return std::floor(served / kServedBucket); }

}  // namespace

std::vector<int64_t> PlanStep(std::span<const StepTurn> turns, std::vector<double> served, const StepLimits& limits) {
  std::vector<int64_t> take(turns.size(), 0);
  std::vector<size_t> prompts, given, waiting;
  for (size_t i = 0; i < turns.size(); ++i) {
    if (turns[i].remaining == 1) take[i] = 1;
    if (turns[i].remaining > 1) prompts.push_back(i);
  }
  if (prompts.empty()) AddDrafts(turns, limits.draft_rows, take);
  std::ranges::stable_sort(prompts, std::greater(), [&](size_t i) { return turns[i].urgency; });
  const std::vector<bool> is_ahead = TenantsAhead(turns, served);
  double work = 0;
  int64_t left = limits.prompt_rows;
  while (left > 0 && !prompts.empty()) {
    const auto next =
        std::ranges::min_element(prompts, {}, [&](size_t i) { return ServedBucket(served[turns[i].tenant]); });
    const StepTurn& turn = turns[*next];
    const int64_t most = std::min({turn.remaining, limits.chunk, left});
    const auto fitting = [&](double limit) {
      return static_cast<int64_t>(std::clamp((limit - work) / turn.work, 0.0, static_cast<double>(most)));
    };
    int64_t rows =
        fitting(std::min(limits.prompt_work, is_ahead[turn.tenant] ? limits.ahead_work : limits.prompt_work));
    if (rows < turn.remaining) rows = std::min(rows, fitting(limits.yield_work));
    if (rows > 0 && rows < turn.least) rows = given.empty() ? turn.least : 0;
    if (rows <= 0) {
      if (most > 0 && !is_ahead[turn.tenant]) waiting.push_back(*next);
      prompts.erase(next);
      continue;
    }
    take[*next] = rows;
    served[turn.tenant] += static_cast<double>(rows);
    left -= rows;
    work += static_cast<double>(rows) * turn.work;
    given.push_back(*next);
    prompts.erase(next);
  }
  // The last prompt of the step is trimmed to a tile; if it ends there, the tile is filled instead.
  if (!given.empty() && take[given.back()] == turns[given.back()].remaining)
    FillTile(turns, waiting, limits, left, take);
  RoundDown(turns, std::move(given), limits, take);
  return take;
}

std::vector<size_t> SlotOrder(std::span<const size_t> tenants, std::vector<double> served,
                              std::vector<int64_t> running) {
  std::vector<std::deque<size_t>> turns(served.size());
  for (size_t i = 0; i < tenants.size(); ++i) turns[tenants[i]].push_back(i);
  // Exactly the least served. With buckets, the oldest turns of equal tenants would always come first, and those are
  // the preempted ones.
  std::set<std::tuple<int64_t, double, size_t>> next;  // the oldest turn of each tenant
  const auto add = [&](size_t tenant) {
    if (!turns[tenant].empty()) next.emplace(running[tenant], served[tenant], turns[tenant].front());
  };
  for (size_t tenant = 0; tenant < served.size(); ++tenant) add(tenant);
  std::vector<size_t> order;
  while (!next.empty()) {
    order.push_back(std::get<2>(next.extract(next.begin()).value()));
    const size_t tenant = tenants[order.back()];
    turns[tenant].pop_front();
    served[tenant] += kServedBucket;
    ++running[tenant];
    add(tenant);
  }
  return order;
}

std::optional<Victim> PickVictim(std::span<const SlotHolder> holders, const SlotSeeker& seeker) {
  std::map<size_t, int64_t> running;
  for (const SlotHolder& holder : holders) ++running[holder.tenant];
  const int64_t own = running[seeker.tenant];
  const auto is_over = [&](const SlotHolder& holder) { return running[holder.tenant] >= own + 2; };
  const auto ran = [](const SlotHolder& holder) { return holder.steps >= kQuantumSteps; };
  // The charge of a new turn's tenant leaves it less than kServedMargin ahead of the victim's tenant.
  const auto is_affordable = [](const SlotHolder& holder) {
    const int64_t repeated = holder.is_recoverable ? 0 : holder.rows;
    return holder.has_run && holder.ahead - static_cast<double>(repeated) > -kServedMargin;
  };
  const auto gives_at_once = [&](const SlotHolder& holder) {
    if (is_over(holder)) return holder.is_recoverable || seeker.is_new;
    return own == 0 &&
           ((holder.is_recoverable && holder.ahead >= kServedMargin) || (seeker.is_new && is_affordable(holder)));
  };
  // The cheapest turn of the tenant with the most turns; among tenants with one turn each, the longest-running turn.
  const auto rank = [&](const SlotHolder& holder) {
    const bool by_cost = is_over(holder) || !holder.is_recoverable;
    return std::tuple(holder.is_recoverable, running[holder.tenant], ran(holder),
                      by_cost ? -holder.rows : holder.steps);
  };
  std::optional<Victim> victim;
  for (size_t i = 0; i < holders.size(); ++i) {
    const SlotHolder& holder = holders[i];
    if (!holder.is_preemptable || holder.tenant == seeker.tenant) continue;
    const bool after_quantum = ran(holder) && (is_over(holder) || own == 0);
    if (!after_quantum && !gives_at_once(holder)) continue;
    if (victim && rank(holder) <= rank(holders[victim->holder])) continue;
    victim = Victim{i, after_quantum || is_over(holder) || holder.is_recoverable ? 0 : holder.rows};
  }
  return victim;
}

double PromptUrgency(int64_t waited_ns, double computing_ns) {
  // Steps have a fixed cost, so very short prompts count as equal.
  constexpr double kLeastNs = 1e6;
  const auto waited = static_cast<double>(waited_ns);
  if (waited_ns >= kPatienceNs) return waited;  // more than any ratio
  return waited / std::max(computing_ns, kLeastNs);
}

void VirtualTokenCounter::Advance() {
  std::optional<double> least;
  for (const auto& [name, tenant] : tenants_) {
    if (tenant.turns > 0) least = std::min(least.value_or(tenant.served), tenant.served);
  }
  time_ = std::max(time_, least.value_or(time_));
}

double VirtualTokenCounter::BeginAt(double least) const {
  return (std::isfinite(least) ? std::max(time_, least) : time_) - kServedBucket;
}

double VirtualTokenCounter::Start(double least) const {
  std::lock_guard lock(mutex_);
  return BeginAt(least);
}

double VirtualTokenCounter::AtArrival(const std::string& tenant, double least) const {
  std::lock_guard lock(mutex_);
  const auto found = tenants_.find(tenant);
  return found == tenants_.end() ? BeginAt(least) : std::max(found->second.served, BeginAt(least));
}

void VirtualTokenCounter::Enter(const std::string& tenant) {
  std::lock_guard lock(mutex_);
  Advance();
  const double begin = time_ - kServedBucket;
  Tenant& own = tenants_.try_emplace(tenant, Tenant{begin, 0}).first->second;
  if (own.turns++ == 0) own.served = std::max(own.served, begin);
}

void VirtualTokenCounter::Leave(const std::string& tenant) {
  std::lock_guard lock(mutex_);
  const auto found = tenants_.find(tenant);
  CHECK(found != tenants_.end() && found->second.turns > 0);
  Advance();
  if (--found->second.turns > 0) return;
  // Forget tenants whose counter Enter would reset to this value anyway.
  const double begin = time_ - kServedBucket;
  std::erase_if(tenants_, [&](const auto& entry) { return entry.second.turns == 0 && entry.second.served <= begin; });
}

void VirtualTokenCounter::Add(const std::string& tenant, double tokens) {
  std::lock_guard lock(mutex_);
  const auto found = tenants_.find(tenant);
  if (found != tenants_.end()) found->second.served += tokens;
}

double VirtualTokenCounter::Of(const std::string& tenant) const {
  const auto found = tenants_.find(tenant);
  return found == tenants_.end() ? time_ : found->second.served;
}

}  // namespace ringside
