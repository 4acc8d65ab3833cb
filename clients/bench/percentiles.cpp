#include "clients/bench/percentiles.h"

#include <algorithm>
#include <cmath>
#include <cstdio>

namespace ringside::client {

double Percentile(std::vector<double> values, double percent) {
  if (values.empty()) return 0;
  const double rank = std::ceil(percent / 100.0 * static_cast<double>(values.size()));
  const size_t index = static_cast<size_t>(std::clamp(rank, 1.0, static_cast<double>(values.size()))) - 1;
  std::nth_element(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(index), values.end());
  return values[index];
}

double Median(const std::vector<double>& values) { return Percentile(values, 50); }

std::string PercentileHeading() {
  char line[128];
  std::snprintf(line, sizeof line, "%-32s %10s %10s %10s", "", "p50", "p90", "p99");
  return line;
}

std::string PercentileRow(const std::string& name, const std::vector<double>& values) {
  char line[256];
  std::snprintf(line, sizeof line, "%-32s %10.1f %10.1f %10.1f", name.c_str(), Percentile(values, 50),
                Percentile(values, 90), Percentile(values, 99));
  return line;
}

}  // namespace ringside::client
