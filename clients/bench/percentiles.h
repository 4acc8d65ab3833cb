// Percentiles of measurements, formatted for tables and JSON. Pure functions.
#pragma once

#include <string>
#include <vector>

namespace ringside::client {

/// The nearest-rank percentile, 0 <= percent <= 100; 0 for no values.
double Percentile(std::vector<double> values, double percent);
double Median(const std::vector<double>& values);

/// "name   p50   p90   p99" with one decimal.
std::string PercentileRow(const std::string& name, const std::vector<double>& values);
std::string PercentileHeading();

}  // namespace ringside::client
