#include "ws/metric_registry.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <string_view>

namespace ringside {
namespace {

std::string NumberText(double value) {
  if (std::isnan(value)) return "NaN";
  if (std::isinf(value)) return value > 0 ? "+Inf" : "-Inf";
  return fmt::format("{:.16g}", value);  // without the last digit, which most sums have wrong
}

void AppendEscaped(std::string& out, std::string_view text, std::string_view escaped) {
  for (const char c : text) {
    if (c == '\n') {
      out += "\\n";
      continue;
    }
    if (escaped.find(c) != std::string_view::npos) out += '\\';
    out += c;
  }
}

/// `bound`: the value of the label `le`; empty = none.
void AppendSample(std::string& out, const std::string& name, const MetricLabels& labels, const std::string& value,
                  const std::string& bound = {}) {
  out += name;
  char separator = '{';
  const auto add = [&](const std::string& label, const std::string& content) {
    out += separator;
    separator = ',';
    out += label + "=\"";
    AppendEscaped(out, content, "\\\"");
    out += '"';
  };
  for (const auto& [label, content] : labels) add(label, content);
  if (!bound.empty()) add("le", bound);
  out += separator == '{' ? " " : "} ";
  out += value + "\n";
}

void AppendMetric(std::string& out, const std::string& name, const MetricLabels& labels, const Histogram& metric) {
  metric.Write(out, name, labels);
}
template <class Metric>
void AppendMetric(std::string& out, const std::string& name, const MetricLabels& labels, const Metric& metric) {
  AppendSample(out, name, labels, NumberText(metric.Value()));
}

template <class Metric>
constexpr std::string_view kTypeName = "histogram";
template <>
constexpr std::string_view kTypeName<Counter> = "counter";
template <>
constexpr std::string_view kTypeName<Gauge> = "gauge";

template <class Metric>
MetricFamily<Metric>& FindOrAdd(std::deque<MetricFamily<Metric>>& families, const std::string& name,
                                const std::string& help) {
  const auto found = std::ranges::find(families, name, &MetricFamily<Metric>::name);
  return found != families.end() ? *found : families.emplace_back(name, help);
}

}  // namespace

void Histogram::Observe(double value) {
  const auto bucket = static_cast<size_t>(std::ranges::lower_bound(bounds_, value) - bounds_.begin());
  std::lock_guard lock(mutex_);
  ++counts_[bucket];
  sum_ += value;
}

void Histogram::Write(std::string& out, const std::string& name, const MetricLabels& labels) const {
  std::lock_guard lock(mutex_);
  uint64_t count = 0;  // of this bucket and those below
  for (size_t i = 0; i < counts_.size(); ++i) {
    count += counts_[i];
    AppendSample(out, name + "_bucket", labels, std::to_string(count),
                 i < bounds_.size() ? NumberText(bounds_[i]) : "+Inf");
  }
  AppendSample(out, name + "_sum", labels, NumberText(sum_));
  AppendSample(out, name + "_count", labels, std::to_string(count));
}

template <class Metric>
void MetricFamily<Metric>::Write(std::string& out) const {
  std::lock_guard lock(mutex_);
  if (metrics_.empty()) return;
  out += "# HELP " + name_ + " ";
  AppendEscaped(out, help_, "\\");
  out += fmt::format("\n# TYPE {} {}\n", name_, kTypeName<Metric>);
  for (const auto& [labels, metric] : metrics_) AppendMetric(out, name_, labels, metric);
}

MetricFamily<Counter>& MetricRegistry::AddCounters(const std::string& name, const std::string& help) {
  std::lock_guard lock(mutex_);
  return FindOrAdd(counters_, name, help);
}
MetricFamily<Gauge>& MetricRegistry::AddGauges(const std::string& name, const std::string& help) {
  std::lock_guard lock(mutex_);
  return FindOrAdd(gauges_, name, help);
}
MetricFamily<Histogram>& MetricRegistry::AddHistograms(const std::string& name, const std::string& help) {
  std::lock_guard lock(mutex_);
  return FindOrAdd(histograms_, name, help);
}

std::string MetricRegistry::Text() const {
  std::string out;
  std::lock_guard lock(mutex_);
  for (const auto& family : counters_) family.Write(out);
  for (const auto& family : gauges_) family.Write(out);
  for (const auto& family : histograms_) family.Write(out);
  return out;
}

}  // namespace ringside
