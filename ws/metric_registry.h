// Counters, gauges and histograms, and their text in Prometheus' exposition format 0.0.4. Owned by Metrics.
// THREAD: all functions may be called concurrently.
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <map>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

namespace ringside {

using MetricLabels = std::map<std::string, std::string>;

class Counter {
 public:
  /// REQUIRES: by >= 0
  void Increment(double by = 1) { value_.fetch_add(by, std::memory_order_relaxed); }
  double Value() const { return value_.load(std::memory_order_relaxed); }

 private:
  std::atomic<double> value_ = 0;
};

class Gauge {
 public:
  void Set(double value) { value_.store(value, std::memory_order_relaxed); }
  double Value() const { return value_.load(std::memory_order_relaxed); }

 private:
  std::atomic<double> value_ = 0;
};

class Histogram {
 public:
  /// `bounds`: upper bounds of the buckets, inclusive and ascending; another bucket has no bound.
  explicit Histogram(std::vector<double> bounds) : bounds_(std::move(bounds)), counts_(bounds_.size() + 1) {}
  void Observe(double value);
  /// Appends the samples of the family `name`.
  void Write(std::string& out, const std::string& name, const MetricLabels& labels) const;

 private:
  const std::vector<double> bounds_;
  mutable std::mutex mutex_;
  std::vector<uint64_t> counts_;  // by bucket
  double sum_ = 0;
};

/// The metrics of one name, by labels.
template <class Metric>
class MetricFamily {
 public:
  MetricFamily(std::string name, std::string help) : name_(std::move(name)), help_(std::move(help)) {}

  /// The metric of these labels, created if it is new. Valid until the registry ends.
  template <class... Arguments>
  Metric& Add(const MetricLabels& labels, const Arguments&... arguments) {
    std::lock_guard lock(mutex_);
    return metrics_.try_emplace(labels, arguments...).first->second;
  }
  const std::string& name() const { return name_; }
  /// Appends help, type and samples; nothing without metrics.
  void Write(std::string& out) const;

 private:
  const std::string name_, help_;
  mutable std::mutex mutex_;
  std::map<MetricLabels, Metric> metrics_;
};

class MetricRegistry {
 public:
  /// The family of this name, created if it is new.
  MetricFamily<Counter>& AddCounters(const std::string& name, const std::string& help);
  MetricFamily<Gauge>& AddGauges(const std::string& name, const std::string& help);
  MetricFamily<Histogram>& AddHistograms(const std::string& name, const std::string& help);
  /// All families, in the order of their creation within each type.
  std::string Text() const;

 private:
  mutable std::mutex mutex_;
  std::deque<MetricFamily<Counter>> counters_;  // deques: their elements never move
  std::deque<MetricFamily<Gauge>> gauges_;
  std::deque<MetricFamily<Histogram>> histograms_;
};

}  // namespace ringside
