#include "tools/sim/cluster/results.h"

#include <cmath>

namespace ringside {
namespace {

double Rounded(double value) { return std::round(value * 1000) / 1000; }

}  // namespace

nlohmann::ordered_json ResultOf(const Scenario& scenario, const ClusterReport& report) {
  nlohmann::ordered_json phases;
  for (const PhaseReport& r : report.phases) {
    phases.push_back({{"seconds", Rounded(r.seconds)},
                      {"turns", r.turns},
                      {"fresh", r.fresh},
                      {"from_slot", r.from_slot},
                      {"from_host", r.from_host},
                      {"from_disk", r.from_disk},
                      {"recomputed", r.recomputed},
                      {"refused", r.refused},
                      {"gave_up", r.gave_up},
                      {"cut", r.cut},
                      {"not_found", r.not_found},
                      {"claimed", r.claimed},
                      {"recomputed_tokens", std::round(r.recomputed_tokens)},
                      {"fullest", Rounded(r.fullest)},
                      {"prompt_share", Rounded(r.prompt_share)},
                      {"busiest", Rounded(r.busiest)},
                      {"disk_bytes", std::round(r.disk_bytes)},
                      {"database_share", Rounded(r.database_share)},
                      {"first_p50", Rounded(r.first_p50)},
                      {"first_p99", Rounded(r.first_p99)},
                      {"first_p999", Rounded(r.first_p999)},
                      {"asked_p99", Rounded(r.asked_p99)},
                      {"asked_p999", Rounded(r.asked_p999)}});
  }
  return {{"name", scenario.name},
          {"servers", scenario.options.servers},
          {"conversations", scenario.options.conversations_per_server},
          {"phases", phases}};
}

std::string ResultsFile() { return RINGSIDE_SOURCE_DIR "/tools/sim/cluster/results.json"; }

}  // namespace ringside
