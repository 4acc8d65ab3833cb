// Turns of the cluster simulation: routing, admission, the work on a server, and the end.
#include <algorithm>
#include <cmath>

#include "tools/sim/cluster/simulated_cluster.h"

namespace ringside {
namespace {

constexpr double kStepS = 0.060;               // a step with prompts
constexpr double kMostDecoding = 0.9;          // share of the time, while prompts are waiting
constexpr double kNoticeS = 1;                 // until a client notices a broken connection
constexpr double kUnavailableS = 5;            // Retry-After while no server of the cell is up
constexpr double kTakeover = 2, kRelease = 1;  // transactions of a claim; of an owner that releases first

}  // namespace

bool SimulatedCluster::IsAlive(const Conversation& one) const {
  return one.home != kNone && servers_[one.home].up && servers_[one.home].epoch == one.epoch;
}

void SimulatedCluster::MoveTo(Conversation& one, uint32_t server) {
  if (one.home != kNone) --servers_[one.home].conversations;
  if (server != kNone) ++servers_[server].conversations;
  one.home = server;
}

void SimulatedCluster::Disconnect(Conversation& one) {
  if (one.is_connected && IsAlive(one)) proxy_.Close(one.home);
  one.is_connected = false;
}

void SimulatedCluster::Renew(uint32_t id) {
  Conversation& one = people_.all()[id];
  Disconnect(one);
  MoveTo(one, kNone);
  tiers_.Take(id);
  people_.Renew(one);
}

uint32_t SimulatedCluster::Connect(Conversation& one) {
  if (one.is_connected && IsAlive(one) && proxy_.IsUp(one.home)) return one.home;
  Disconnect(one);
  return proxy_.Find(people_.route(one), now_s_);
}

void SimulatedCluster::WaitForServer(uint32_t id, uint32_t server) {
  const Conversation& one = people_.all()[id];
  if (server != kNone)
    return Schedule(id, std::max(servers_[server].noticed_s, now_s_) + 0.5 * people_.Random(), Event::kTurn);
  const uint32_t cell = people_.route(people_.all()[id]).cell;
  const double given_up_s = one.sent_s + options_.proxy.hold_s;
  const double back_s = cell == kNone ? 0 : cells_[cell].back_s + people_.Random();
  if (now_s_ >= given_up_s || back_s <= now_s_) return Refuse(id, kUnavailableS);
  Schedule(id, std::min(back_s, given_up_s), Event::kTurn);
}

void SimulatedCluster::Refuse(uint32_t id, double advised_s) {
  Conversation& one = people_.all()[id];
  ++phase().refused;
  one.is_sent = false;
  if (options_.people.retries < 0 || one.attempts++ < options_.people.retries) {
    return Schedule(id, now_s_ + people_.RetryS(advised_s), Event::kTurn);
  }
  ++phase().gave_up, ++report_.gave_up;
  one.asks = false;
  Schedule(id, now_s_ + people_.PauseS(), Event::kTurn);
}

SimulatedCluster::Plan SimulatedCluster::MakePlan(const Conversation& one, uint32_t server) {
  Server& at = servers_[server];
  while (!at.prompts.empty() && at.prompts.front() <= now_s_) at.prompts.pop_front();
  const double bytes = tiers_.Bytes(one.cached), load_s = bytes / (cost_.load_bytes_per_ms * 1e3);
  const Tier tier = one.holder == server ? one.tier : kGone;
  const double read_s = tier == kDisk ? tiers_.ReadS(server, bytes, now_s_) : 0;
  Plan plan{.source = &PhaseReport::recomputed, .ready_s = now_s_};
  if (one.turn == 0) {
    plan.source = &PhaseReport::fresh;
  } else if (tier == kSlot) {
    plan.source = &PhaseReport::from_slot, plan.cached = one.cached;
  } else if (tier == kHost) {
    plan.source = &PhaseReport::from_host, plan.cached = one.cached, plan.ready_s += load_s, plan.read_s = load_s;
  } else if (tier == kDisk && read_s < RecomputeS(one.cached)) {  // otherwise recomputation is faster
    plan.source = &PhaseReport::from_disk, plan.cached = one.cached, plan.ready_s += read_s + load_s;
    plan.read_bytes = bytes, plan.read_s = bytes / options_.server.disk_bytes_per_s + load_s;
    plan.disk_wait_s = read_s + load_s - plan.read_s;
  }
  const double window = options_.server.window, tokens = std::min<double>(one.tokens, window);
  plan.recomputed = std::max(0.0, tokens - plan.cached);
  const auto decoding = at.running - static_cast<int64_t>(at.prompts.size()) + 1;
  const auto context = static_cast<int64_t>(std::min(tokens + one.input, window));
  plan.step_s = 1e-3 * cost_.StepMs({.rows = decoding, .decoding = decoding, .keys = decoding * context});
  const double left = 1 - std::min(plan.step_s / kStepS, kMostDecoding);
  plan.work_s = (RecomputeS(plan.recomputed + one.input) + one.input * tokens * product_s_) / left;
  return plan;
}

void SimulatedCluster::Turn(uint32_t id) {
  Conversation& one = people_.all()[id];
  if (!one.asks) {
    one.asks = true, one.asked_s = now_s_, one.attempts = 0;
    people_.Ask(one);
    ++report_.asked;
  }
  if (!one.is_sent) one.is_sent = true, one.sent_s = now_s_;
  const uint32_t server = Connect(one);
  if (server == kNone || !servers_[server].up) return WaitForServer(id, server);
  if (one.cell != kNone && one.cell != proxy_.cell(server)) {
    ++phase().not_found, ++report_.not_found;
    Renew(id);
    return Schedule(id, now_s_ + people_.PauseS(), Event::kTurn);
  }
  Server& at = servers_[server];
  const bool is_alive = IsAlive(one), is_claim = one.turn > 0 && !(is_alive && one.home == server);
  const bool waits = is_claim && !is_alive && one.home != server && one.home != kNone;
  const double lease_s = waits ? std::max(servers_[one.home].claimable_s - now_s_, 0.0) : 0;
  const Plan plan = MakePlan(one, server);
  const double wait_s = std::max(at.prompts_free_s - now_s_, plan.disk_wait_s);
  if (options_.wait_limit_s > 0) {
    // The time that the turn occupies whatever it would wait for: its cell's database, or this server.
    const double commit_s = cells_[proxy_.cell(server)].database.WaitS(now_s_);
    const double commits_s = 2 * static_cast<double>(options_.store.cell_servers) / options_.store.commits_per_s;
    const double own_s = commit_s > wait_s ? commits_s : (plan.work_s + plan.read_s) * at.misjudgement;
    const auto advised_s = at.limit.Refuse(now_s_, std::max({wait_s * at.misjudgement, lease_s, commit_s}), own_s);
    if (advised_s) return Refuse(id, *advised_s);
  } else if (static_cast<int64_t>(at.prompts.size()) >= options_.server.queue_limit) {
    return Refuse(id, std::clamp(wait_s / 2, 1.0, 60.0));  // today's advice: half the queue at the recent rate
  }
  if (lease_s > 0) return Schedule(id, now_s_ + lease_s, Event::kTurn);
  report_.longest_wait_s = std::max(report_.longest_wait_s, wait_s);
  phase().claimed += is_claim;
  Start(id, server, plan, is_claim ? kTakeover + (is_alive ? kRelease : 0) : 0);
}

void SimulatedCluster::Start(uint32_t id, uint32_t server, const Plan& plan, double claims) {
  Conversation& one = people_.all()[id];
  Server& at = servers_[server];
  PhaseReport& r = phase();
  if (one.is_connected && one.home != server) Disconnect(one);
  if (!one.is_connected) proxy_.Open(server), one.is_connected = true;
  if (one.home != server) MoveTo(one, server);
  one.cell = proxy_.cell(server), one.epoch = at.epoch, one.is_sent = false;
  tiers_.Take(id);
  if (plan.read_bytes > 0) tiers_.Read(server, plan.read_bytes, now_s_);
  if (plan.cached == 0) one.saved = 0;
  ++r.turns, ++(r.*plan.source);
  if (one.turn > 0) r.recomputed_tokens += plan.recomputed;
  ++at.running;
  const double wait_s = std::max(at.prompts_free_s - now_s_, 0.0);
  at.prompts_free_s = std::max(at.prompts_free_s, plan.ready_s) + plan.work_s;
  at.prompts.push_back(at.prompts_free_s);
  at.computing_s += plan.work_s;
  Database& database = cells_[one.cell].database;
  double durable_s = database.Commit(options_.store, now_s_, 1 + claims, 0, people_.Random());
  if (options_.store.commits_tokens) durable_s += options_.store.most_s;  // the first token's record
  const double first_s = std::max(at.prompts_free_s, durable_s) + plan.step_s;
  if (one.turn > 0) first_.Add(1e3 * (first_s - one.sent_s)), asked_.Add(1e3 * (first_s - one.asked_s));
  one.tokens += one.input + one.output;
  one.cached = static_cast<float>(std::min<double>(one.tokens, options_.server.window));
  one.used_s = now_s_;
  tiers_.Put(id, server, kSlot);
  tiers_.MakeRoom(server, now_s_);
  const double slow = std::min(one.output - 1.0, wait_s / kStepS);  // tokens while prompts fill the steps
  Schedule(id, first_s + slow * kStepS + (one.output - 1 - slow) * plan.step_s, Event::kEnd);
}

void SimulatedCluster::End(uint32_t id) {
  Conversation& one = people_.all()[id];
  Server& at = servers_[one.home];
  if (one.epoch != at.epoch) {  // its server stopped meanwhile: the conversation is as before the turn
    ++phase().cut;
    one.tokens -= one.input + one.output;
    one.is_connected = false;
    return Schedule(id, now_s_ + kNoticeS, Event::kTurn);
  }
  --at.running;
  const double appends = options_.store.commits_tokens ? one.output : 0;
  const double done_s = cells_[one.cell].database.Commit(options_.store, now_s_, 1, appends, people_.Random());
  ++report_.answered;
  ++one.turn;
  one.asks = false;
  if (people_.IsLast(one)) {
    Renew(id);
  } else if (!options_.proxy.websockets) {
    Disconnect(one);
  }
  Schedule(id, done_s + people_.PauseS(), Event::kTurn);
}

}  // namespace ringside
