// Percentiles of a very large number of positive values, within 1 %. THREAD: one.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace ringside {

class LogHistogram {
 public:
  void Add(double value) {
    const auto i = static_cast<size_t>(std::max(0.0, kPerE * std::log(value / kLeast)));
    if (i >= counts_.size()) counts_.resize(i + 1);
    ++counts_[i], ++all_;
  }
  /// The value that `share` of the values are below; 0 if there are none.
  double At(double share) const {
    auto left = static_cast<int64_t>(share * static_cast<double>(all_));
    for (size_t i = 0; i < counts_.size(); ++i) {
      if ((left -= counts_[i]) < 0) return kLeast * std::exp((static_cast<double>(i) + 0.5) / kPerE);
    }
    return 0;
  }

 private:
  static constexpr double kLeast = 0.1, kPerE = 100;
  std::vector<int64_t> counts_;
  int64_t all_ = 0;
};

}  // namespace ringside
