// Line charts as SVG. Pure functions.
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace ringside::client {

struct ChartLine {
  std::string name;
  std::vector<std::pair<double, double>> points;  // x ascending
};

struct ChartPanel {
  std::string y_title, x_title;
  std::vector<ChartLine> lines;  // at most three
};

/// Stacks the panels vertically. Both axes start at 0. REQUIRES: all values are at least 0.
std::string DrawCharts(const std::string& title, const std::vector<ChartPanel>& panels);

}  // namespace ringside::client
