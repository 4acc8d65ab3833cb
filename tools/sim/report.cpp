#include "tools/sim/report.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>

namespace ringside {

Percentiles PercentilesOf(std::vector<double> values) {
  if (values.empty()) return {};
  std::sort(values.begin(), values.end());
  const auto at = [&](double share) {
    const double place = share * static_cast<double>(values.size() - 1);
    const auto below = static_cast<size_t>(place);
    const double above = values[std::min(below + 1, values.size() - 1)];
    return values[below] + (above - values[below]) * (place - static_cast<double>(below));
  };
  return {at(0.5), at(0.99), values.back()};
}

namespace {

std::vector<RoleReport> RolesOf(const std::vector<SimTurn>& turns) {
  struct Role {
    int64_t turns = 0;
    std::vector<double> first, later, gaps, whole;
  };
  std::map<std::string, Role> roles;
  for (const SimTurn& turn : turns) {
    if (turn.role.empty()) continue;
    Role& role = roles[turn.role];
    ++role.turns;
    (turn.number == 0 ? role.first : role.later).push_back(turn.first_ms - turn.sent_ms);
    role.gaps.insert(role.gaps.end(), turn.gaps_ms.begin(), turn.gaps_ms.end());
    role.whole.push_back(turn.end_ms - turn.sent_ms);
  }
  std::vector<RoleReport> reports;
  for (auto& [name, role] : roles) {
    reports.push_back({name, role.turns, PercentilesOf(std::move(role.first)), PercentilesOf(std::move(role.later)),
                       PercentilesOf(std::move(role.gaps)), PercentilesOf(std::move(role.whole))});
  }
  return reports;
}

}  // namespace

SimReport ReportOf(const SimResult& result) {
  std::vector<std::vector<double>> by_number, by_user;
  std::vector<double> gaps, slots, restores, prompts;
  const auto add = [](std::vector<std::vector<double>>& groups, int64_t group, double value) {
    if (std::ssize(groups) <= group) groups.resize(static_cast<size_t>(group) + 1);
    groups[static_cast<size_t>(group)].push_back(value);
  };
  SimReport report;
  int64_t tokens = 0;
  for (const SimTurn& turn : result.turns) {
    add(by_number, turn.number, turn.first_ms - turn.sent_ms);
    add(by_user, turn.user, turn.first_ms - turn.sent_ms);
    gaps.insert(gaps.end(), turn.gaps_ms.begin(), turn.gaps_ms.end());
    slots.push_back(turn.begun_ms - turn.sent_ms);
    prompts.push_back(turn.first_ms - turn.begun_ms);
    const CacheSource source = turn.report.source;
    if (source == CacheSource::kHost) restores.push_back(turn.report.restore_ms);
    ++(source == CacheSource::kSlot   ? report.from_slot
       : source == CacheSource::kHost ? report.from_host
       : source == CacheSource::kNew  ? report.fresh
                                      : report.recomputed);
    tokens += turn.output;
    report.computed += turn.report.tokens_computed;
  }
  report.tokens_per_second = 1e3 * static_cast<double>(tokens) / result.ms;
  for (auto& group : by_number) report.first_token_ms.push_back(PercentilesOf(std::move(group)));
  for (auto& group : by_user) report.users_ms.push_back(PercentilesOf(std::move(group)));
  report.gap_ms = PercentilesOf(std::move(gaps));
  report.slot_ms = PercentilesOf(std::move(slots));
  report.restore_ms = PercentilesOf(std::move(restores));
  report.prompt_ms = PercentilesOf(std::move(prompts));
  report.device_share = result.device_ms / result.ms;
  report.roles = RolesOf(result.turns);
  return report;
}

std::string Table(const SimReport& report) {
  std::string out = fmt::format("{:28} {:>10.1f}\n{:28} {:>9.1f}%\n", "tokens/s", report.tokens_per_second,
                                "device has a step", 100 * report.device_share);
  out += fmt::format("{:28} {:>10} {:>10} {:>10}\n", "ms", "p50", "p99", "most");
  const auto row = [&](const std::string& name, const Percentiles& of) {
    out += fmt::format("{:28} {:>10.2f} {:>10.2f} {:>10.2f}\n", name, of.p50, of.p99, of.most);
  };
  for (size_t i = 0; report.roles.empty() && i < report.first_token_ms.size(); ++i) {
    row(fmt::format("first token, turn {}", i + 1), report.first_token_ms[i]);
  }
  for (const RoleReport& role : report.roles) {
    row(fmt::format("{} ({}), turn 1", role.role, role.turns), role.first_ms);
    if (role.later_ms.most > 0) row("  later turns", role.later_ms);
    row("  between tokens", role.gap_ms);
    row("  whole turn", role.turn_ms);
  }
  if (report.users_ms.size() > 1) {
    for (size_t i = 0; i < report.users_ms.size(); ++i) {
      row(fmt::format("first token, user {}", i + 1), report.users_ms[i]);
    }
  }
  row("between tokens", report.gap_ms);
  row("waits: until it begins", report.slot_ms);
  row("  of it: the cache's copies", report.restore_ms);
  row("waits: prompt", report.prompt_ms);
  out += fmt::format("turns: {} new, {} in their slot, {} from the host, {} computed again; {} prompt tokens\n",
                     report.fresh, report.from_slot, report.from_host, report.recomputed, report.computed);
  return out;
}

std::string Json(const SimReport& report) {
  const auto of = [](const Percentiles& p) { return nlohmann::json{{"p50", p.p50}, {"p99", p.p99}, {"most", p.most}}; };
  const auto all = [&](const std::vector<Percentiles>& list) {
    nlohmann::json out = nlohmann::json::array();
    for (const Percentiles& p : list) out.push_back(of(p));
    return out;
  };
  nlohmann::json roles = nlohmann::json::object();
  for (const RoleReport& role : report.roles) {
    roles[role.role] = {{"turns", role.turns},
                        {"first_ms", of(role.first_ms)},
                        {"later_ms", of(role.later_ms)},
                        {"gap_ms", of(role.gap_ms)},
                        {"turn_ms", of(role.turn_ms)}};
  }
  return nlohmann::json{
      {"roles", roles},
      {"tokens_per_s", report.tokens_per_second},
      {"first_token_ms", all(report.first_token_ms)},
      {"users_first_token_ms", all(report.users_ms)},
      {"gap_ms", of(report.gap_ms)},
      {"wait_ms",
       {{"begin", of(report.slot_ms)}, {"restore", of(report.restore_ms)}, {"prompt", of(report.prompt_ms)}}},
      {"device_share", report.device_share},
      {"prompt_tokens", report.computed},
      {"turns",
       {{"new", report.fresh},
        {"slot", report.from_slot},
        {"host", report.from_host},
        {"recomputed", report.recomputed}}}}
      .dump();
}

}  // namespace ringside
