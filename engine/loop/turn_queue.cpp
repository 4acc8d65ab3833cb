#include "engine/loop/turn_queue.h"

#include <algorithm>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "engine/loop/tenant_index.h"

namespace ringside {

void TurnQueue::Requeue(std::unique_ptr<RunningTurn> turn) {
  shares_.Requeue(turn->request().tenant);
  waiting_.push_front(std::move(turn));
}

std::unique_ptr<RunningTurn> TurnQueue::Remove(TurnId turn) {
  const auto found = std::ranges::find_if(waiting_, [&](const auto& waiting) { return waiting->id() == turn; });
  if (found == waiting_.end()) return nullptr;
  std::unique_ptr<RunningTurn> removed = std::move(*found);
  waiting_.erase(found);
  return removed;
}

std::unique_ptr<RunningTurn> TurnQueue::Pop() {
  std::unique_ptr<RunningTurn> first = std::move(waiting_.front());
  waiting_.pop_front();
  return first;
}

void TurnQueue::Order(std::span<const std::unique_ptr<RunningTurn>> running) {
  auto [tenants, served] = TenantIndex(waiting_, served_);
  if (served.size() < 2) return;
  std::unordered_map<std::string_view, int64_t> turns;
  for (const auto& turn : running) ++turns[turn->request().tenant];
  std::vector<int64_t> running_turns(served.size());
  std::vector<bool> begins(served.size());  // whether the tenant's next turn is a new one
  for (size_t i = tenants.size(); i-- > 0;) {
    running_turns[tenants[i]] = turns[waiting_[i]->request().tenant];
    begins[tenants[i]] = !waiting_[i]->begun();
  }
  // A new turn counts as if its tenant had been served less, as where it preempts another (PickVictim).
  for (size_t tenant = 0; tenant < served.size(); ++tenant) served[tenant] -= begins[tenant] ? kServedMargin : 0;
  std::deque<std::unique_ptr<RunningTurn>> ordered;
  for (const size_t i : SlotOrder(tenants, std::move(served), std::move(running_turns)))
    ordered.push_back(std::move(waiting_[i]));
  waiting_ = std::move(ordered);
}

void TurnQueue::PublishWaits(std::span<const std::unique_ptr<RunningTurn>> running, double ns_per_token,
                             int64_t free_slots) {
  WaitForecast::Load load{.ns_per_token = ns_per_token, .free_slots = free_slots};
  const auto tenant_of = [&](const RunningTurn& turn) -> WaitForecast::Tenant& {
    const auto [place, is_new] = load.tenants.try_emplace(turn.request().tenant);
    if (is_new) place->second.served = served_.Of(turn.request().tenant);
    return place->second;
  };
  const int64_t now = clock_.MonotonicNs();
  double age_ns = 0;
  for (const auto& turn : running) {
    WaitForecast::Tenant& tenant = tenant_of(*turn);
    ++tenant.running;
    if (turn->remaining() > 1) tenant.tokens += turn->remaining();
    age_ns += static_cast<double>(now - turn->clock().begun_ns());
  }
  for (const auto& turn : waiting_) {
    WaitForecast::Tenant& tenant = tenant_of(*turn);
    ++tenant.waiting;
    tenant.tokens += turn->request().expected_tokens;
  }
  if (const auto turns = static_cast<double>(running.size()); turns > 0) {
    load.ns_per_end = waits_.HeldNs(age_ns / turns) / turns;
  }
  waits_.forecast().Publish(std::move(load));
}

void TurnQueue::End(std::unique_ptr<RunningTurn> turn, FinishReason reason, Status error) {
  shares_.Leave(turn->request().tenant);
  turn->Finish(reason, std::move(error));
  turn->End(clock_.MonotonicNs());
  Retire(*turn);
}

}  // namespace ringside
