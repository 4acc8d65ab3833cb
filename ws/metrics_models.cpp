#include "ws/metrics_models.h"

#include <iterator>

namespace ringside {
namespace {

struct ModelFigure {
  const char* name;
  const char* help;
  double (*read)(const ModelStatus&);
};

constexpr ModelFigure kModelGauges[] = {
    {"ringside_model_loaded", "1 while the model is in memory",
     [](const ModelStatus& now) { return now.state == "loaded" ? 1.0 : 0.0; }},
    {"ringside_model_memory_bytes", "Weights and cache memory of a loaded model",
     [](const ModelStatus& now) { return static_cast<double>(now.bytes); }},
    {"ringside_model_requests_running", "Turns in the model's engine",
     [](const ModelStatus& now) { return static_cast<double>(now.running); }},
    {"ringside_model_requests_waiting", "Turns waiting for the model to be loaded",
     [](const ModelStatus& now) { return static_cast<double>(now.waiting); }},
};
constexpr ModelFigure kModelCounters[] = {
    {"ringside_model_loads_total", "Loads of the model",
     [](const ModelStatus& now) { return static_cast<double>(now.loads); }},
    {"ringside_model_unloads_total", "Unloads of the model",
     [](const ModelStatus& now) { return static_cast<double>(now.unloads); }},
    {"ringside_model_load_failures_total", "Loads of the model that failed",
     [](const ModelStatus& now) { return static_cast<double>(now.load_failures); }},
    {"ringside_model_load_seconds_total", "Time of the model's loads",
     [](const ModelStatus& now) { return now.load_seconds; }},
    {"ringside_model_unload_seconds_total", "Time of the model's unloads, saving its caches included",
     [](const ModelStatus& now) { return now.unload_seconds; }},
};

}  // namespace

struct ModelFigures::Families {
  explicit Families(MetricRegistry& registry) {
    for (const ModelFigure& figure : kModelGauges) gauges.push_back(&registry.AddGauges(figure.name, figure.help));
    for (const ModelFigure& figure : kModelCounters) counters.push_back(&registry.AddCounters(figure.name, figure.help));
  }
  std::vector<MetricFamily<Gauge>*> gauges;
  std::vector<MetricFamily<Counter>*> counters;
};

ModelFigures::ModelFigures(MetricRegistry& registry) : registry_(registry) {}
ModelFigures::~ModelFigures() = default;

void ModelFigures::Set(const std::vector<ModelStatus>& models) {
  if (families_ == nullptr && !models.empty()) families_ = std::make_unique<Families>(registry_);
  for (const ModelStatus& model : models) {
    const MetricLabels labels = {{"model", model.name}};
    for (size_t i = 0; i < std::size(kModelGauges); ++i) {
      families_->gauges[i]->Add(labels).Set(kModelGauges[i].read(model));
    }
    for (size_t i = 0; i < std::size(kModelCounters); ++i) {
      Counter& counter = families_->counters[i]->Add(labels);
      const double more = kModelCounters[i].read(model) - counter.Value();
      if (more > 0) counter.Increment(more);
    }
  }
}

}  // namespace ringside
