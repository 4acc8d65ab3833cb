#include "engine/families/network_plan.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

namespace ringside {
namespace {

void PlanTensor(const TensorRule& rule, std::string_view prefix, int64_t layer, int64_t expert, NetworkPlan* plan) {
  std::vector<int64_t> shape = ShapeOf(rule.role, plan->spec);
  if (rule.transposed) std::swap(shape.front(), shape.back());
  if (PlaceOf(rule.role) == TensorPlace::kExpert && expert < 0) shape.insert(shape.begin(), plan->spec.experts);
  std::string name(rule.name);
  // The head is outside the prefixed network.
  if (rule.role != TensorRole::kHead && rule.role != TensorRole::kHeadBias) name.insert(0, prefix);
  const auto put = [&](std::string_view place, int64_t number) {
    if (const size_t at = name.find(place); at != std::string::npos) {
      name.replace(at, place.size(), std::to_string(number));
    }
  };
  put("{}", layer), put("{e}", expert);
  plan->tensors.push_back({.role = rule.role,
                           .encoder = rule.encoder,
                           .layer = layer,
                           .expert = expert,
                           .name = std::move(name),
                           .shape = std::move(shape),
                           .transposed = rule.transposed,
                           .order = rule.order});
}

void PlanPart(std::span<const TensorRule> rules, std::string_view prefix, bool encoder, int64_t layers,
              NetworkPlan* plan) {
  for (int64_t layer = -1; layer < layers; ++layer) {
    for (const TensorRule& rule : rules) {
      if (rule.encoder != encoder) continue;
      if (!IsRequired(rule.role, plan->spec, encoder) || IsPerLayer(rule.role) != (layer >= 0)) continue;
      const bool each = rule.name.find("{e}") != std::string_view::npos;
      for (int64_t expert = each ? 0 : -1; expert < (each ? plan->spec.experts : 0); ++expert) {
        PlanTensor(rule, prefix, layer, expert, plan);
      }
    }
  }
}

}  // namespace

Status UnsupportedArchitecture(std::string_view architecture, std::span<const std::string_view> supported) {
  return InvalidArgument(
      fmt::format("architecture '{}' is not supported; these are: {}", architecture, fmt::join(supported, ", ")));
}

void PlanTensors(std::span<const TensorRule> rules, std::string_view prefix, NetworkPlan* plan) {
  PlanPart(rules, prefix, false, plan->spec.layers, plan);
  PlanPart(rules, prefix, true, plan->spec.encoder_layers, plan);
}

}  // namespace ringside
