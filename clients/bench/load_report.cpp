#include "clients/bench/load_report.h"

#include <algorithm>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "clients/bench/line_chart.h"
#include "clients/bench/percentiles.h"

namespace ringside::client {
namespace {

constexpr size_t kChartBins = 24;
constexpr std::pair<const char*, double> kPercents[] = {{"p50", 50}, {"p90", 90}, {"p99", 99}};

/// Over all answered turns.
struct Sums {
  std::vector<double> ttft_ms, gap_ms, total_ms, tokens_per_s;
  int64_t input_tokens = 0, cached_tokens = 0, output_tokens = 0;
  int answered = 0, failed = 0;
};

Sums SumUp(const LoadRun& run) {
  Sums sums;
  for (const TurnRecord& turn : run.turns) {
    if (!turn.error.empty()) {
      ++sums.failed;
      continue;
    }
    ++sums.answered;
    sums.ttft_ms.push_back(turn.ttft_ms);
    sums.gap_ms.insert(sums.gap_ms.end(), turn.gaps_ms.begin(), turn.gaps_ms.end());
    sums.total_ms.push_back(turn.total_ms);
    sums.input_tokens += turn.input_tokens;
    sums.cached_tokens += turn.cached_tokens;
    sums.output_tokens += turn.output_tokens;
    const double decode_ms = turn.total_ms - turn.ttft_ms;
    if (turn.output_tokens > 1 && decode_ms > 0) {
      sums.tokens_per_s.push_back(1000.0 * static_cast<double>(turn.output_tokens - 1) / decode_ms);
    }
  }
  return sums;
}

double Ratio(int64_t part, int64_t whole) {
  return whole > 0 ? static_cast<double>(part) / static_cast<double>(whole) : 0;
}

std::string Format(const char* format, auto... values) {
  char line[512];
  std::snprintf(line, sizeof line, format, values...);
  return line;
}

/// One line per percentile, over the time bins that have values.
std::vector<ChartLine> PercentileLines(const LoadRun& run, bool gaps) {
  double end_s = 0;
  for (const TurnRecord& turn : run.turns) end_s = std::max(end_s, turn.start_s);
  const double bin_s = std::max(end_s, 1e-3) / kChartBins;
  std::vector<std::vector<double>> bins(kChartBins);
  for (const TurnRecord& turn : run.turns) {
    if (!turn.error.empty()) continue;
    auto& bin = bins[std::min(kChartBins - 1, static_cast<size_t>(turn.start_s / bin_s))];
    if (gaps) {
      bin.insert(bin.end(), turn.gaps_ms.begin(), turn.gaps_ms.end());
    } else {
      bin.push_back(turn.ttft_ms);
    }
  }
  std::vector<ChartLine> lines;
  for (const auto& [name, percent] : kPercents) {
    ChartLine line{name, {}};
    for (size_t i = 0; i < kChartBins; ++i) {
      if (bins[i].empty()) continue;
      line.points.emplace_back((static_cast<double>(i) + 0.5) * bin_s, Percentile(bins[i], percent));
    }
    lines.push_back(std::move(line));
  }
  return lines;
}

}  // namespace

std::map<std::string, int> CountErrors(const LoadRun& run) {
  std::map<std::string, int> errors;
  for (const TurnRecord& turn : run.turns) {
    if (!turn.error.empty()) ++errors[turn.error];
  }
  return errors;
}

std::string LoadTable(const LoadBenchOptions& options, const LoadRun& run) {
  const Sums sums = SumUp(run);
  std::string text =
      Format("%s: %d conversations, %d turns in %.1f s, %d failed, %d reconnects\n", ProtocolName(options.protocol),
             options.conversations, sums.answered, run.wall_s, sums.failed, run.reconnects);
  text += Format("%lld tokens out, %.1f tokens/s overall; %lld tokens in, %lld cached (%.1f %%)\n",
                 static_cast<long long>(sums.output_tokens), static_cast<double>(sums.output_tokens) / run.wall_s,
                 static_cast<long long>(sums.input_tokens), static_cast<long long>(sums.cached_tokens),
                 100 * Ratio(sums.cached_tokens, sums.input_tokens));
  for (const auto& [error, count] : CountErrors(run)) text += Format("error %s: %d\n", error.c_str(), count);
  text += "\n" + PercentileHeading() + "\n";
  text += PercentileRow("time to first token, ms", sums.ttft_ms) + "\n";
  text += PercentileRow("between pieces of text, ms", sums.gap_ms) + "\n";
  text += PercentileRow("whole turn, ms", sums.total_ms) + "\n";
  return text + PercentileRow("tokens/s of one answer", sums.tokens_per_s) + "\n";
}

std::string LoadJson(const LoadBenchOptions& options, const LoadRun& run) {
  using Json = nlohmann::ordered_json;
  const Sums sums = SumUp(run);
  const auto spread = [](const std::vector<double>& values) {
    Json json = Json::object();
    for (const auto& [name, percent] : kPercents) json[name] = Percentile(values, percent);
    return json;
  };
  Json records = Json::array();
  for (const TurnRecord& turn : run.turns) {
    Json record = {{"conversation", turn.conversation},
                   {"turn", turn.turn},
                   {"start_s", turn.start_s},
                   {"ttft_ms", turn.ttft_ms},
                   {"e2e_ms", turn.total_ms},
                   {"itl_ms", turn.gaps_ms},
                   {"input_tokens", turn.input_tokens},
                   {"cached_tokens", turn.cached_tokens},
                   {"output_tokens", turn.output_tokens},
                   {"error", nullptr}};
    if (!turn.error.empty()) record["error"] = {{"kind", turn.error}, {"message", turn.message}};
    records.push_back(std::move(record));
  }
  const Json json = {{"protocol", ProtocolName(options.protocol)},
                     {"conversations", options.conversations},
                     {"rate", options.rate},
                     {"turns", sums.answered},
                     {"failures", sums.failed},
                     {"errors", CountErrors(run)},
                     {"reconnects", run.reconnects},
                     {"wall_s", run.wall_s},
                     {"output_tokens", sums.output_tokens},
                     {"tokens_per_s", static_cast<double>(sums.output_tokens) / run.wall_s},
                     {"input_tokens", sums.input_tokens},
                     {"cached_tokens", sums.cached_tokens},
                     {"cached_ratio", Ratio(sums.cached_tokens, sums.input_tokens)},
                     {"ttft_ms", spread(sums.ttft_ms)},
                     {"itl_ms", spread(sums.gap_ms)},
                     {"e2e_ms", spread(sums.total_ms)},
                     {"records", records}};
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

std::string LoadChart(const LoadBenchOptions& options, const LoadRun& run) {
  const Sums sums = SumUp(run);
  std::string title =
      Format("%s, %d conversations, %d turns", ProtocolName(options.protocol), options.conversations, sums.answered);
  if (options.rate > 0) title += Format(", %g arrivals/s", options.rate);
  return DrawCharts(title, {{"time to first token, ms", "seconds since the start", PercentileLines(run, false)},
                            {"between pieces of text, ms", "seconds since the start", PercentileLines(run, true)}});
}

}  // namespace ringside::client
