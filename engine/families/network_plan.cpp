#include "engine/families/network_plan.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "engine/families/unsupported_traits.h"

namespace ringside {
namespace {

/// Name prefixes of a network and of its head.
struct Prefixes {
  std::string_view network, head;
  int64_t first = 0;  // number that the files have for the first layer with this prefix
};

void PlanTensor(const TensorRule& rule, const Prefixes& prefixes, int64_t layer, int64_t expert, NetworkPlan* plan) {
  std::vector<int64_t> shape = ShapeOf(rule.role, plan->spec, layer);
  if (rule.transposed) std::swap(shape.front(), shape.back());
  const int64_t parts = PartsOf(rule.role, plan->spec);
  if (parts > 0 && expert < 0) shape.insert(shape.begin(), parts);
  if (rule.one_row) shape.insert(shape.begin(), 1);
  std::string name = WithLayer(rule.name, layer - prefixes.first);
  const bool head = rule.role == TensorRole::kHead || rule.role == TensorRole::kHeadBias;
  name.insert(0, head ? prefixes.head : prefixes.network);
  constexpr std::string_view kExpert = "{e}";
  if (const size_t at = name.find(kExpert); at != std::string::npos) {
    name.replace(at, kExpert.size(), std::to_string(expert));
  }
  plan->tensors.push_back({.role = rule.role,
                           .encoder = rule.encoder,
                           .layer = layer,
                           .expert = expert,
                           .name = std::move(name),
                           .shape = std::move(shape),
                           .transposed = rule.transposed,
                           .order = rule.order});
}

/// Layers [begin, end); -1 is the tensors without a layer.
struct LayerRange {
  int64_t begin = 0, end = 0;
};

void PlanPart(std::span<const TensorRule> rules, const Prefixes& prefixes, bool encoder, LayerRange layers,
              NetworkPlan* plan) {
  for (int64_t layer = layers.begin; layer < layers.end; ++layer) {
    for (const TensorRule& rule : rules) {
      if (rule.encoder != encoder) continue;
      if (IsPerLayer(rule.role) != (layer >= 0) || !IsRequired(rule.role, plan->spec, layer, encoder)) continue;
      const bool each = rule.name.find("{e}") != std::string_view::npos;
      for (int64_t expert = each ? 0 : -1; expert < (each ? PartsOf(rule.role, plan->spec) : 0); ++expert) {
        PlanTensor(rule, prefixes, layer, expert, plan);
      }
    }
  }
}

}  // namespace

Status UnsupportedArchitecture(std::string_view architecture, std::span<const std::string_view> supported) {
  if (const auto [trait, nearest] = FindUnsupportedTrait(architecture); !trait.empty()) {
    return InvalidArgument(
        fmt::format("architecture '{}' is not supported: it has {}; the nearest model that loads is {}", architecture,
                    trait, nearest));
  }
  const std::string_view nearest = NearestArchitecture(architecture, supported);
  return InvalidArgument(fmt::format("architecture '{}' is not supported{}; these are: {}", architecture,
                                     nearest.empty() ? "" : fmt::format(" (the nearest that is: '{}')", nearest),
                                     fmt::join(supported, ", ")));
}

std::vector<TensorRule> JoinRules(std::span<const std::span<const TensorRule>> parts) {
  std::vector<TensorRule> rules;
  for (const auto& part : parts) {
    for (const TensorRule& rule : part) {
      const auto same = std::ranges::find_if(
          rules, [&](const TensorRule& other) { return other.role == rule.role && other.encoder == rule.encoder; });
      if (same == rules.end())
        rules.push_back(rule);
      else
        *same = rule;
    }
  }
  return rules;
}

void PlanTensors(std::span<const TensorRule> rules, std::string_view prefix, NetworkPlan* plan, std::string_view head) {
  const Prefixes prefixes{prefix, head};
  PlanPart(rules, prefixes, false, {-1, plan->spec.layers}, plan);
  PlanPart(rules, prefixes, true, {-1, plan->spec.encoder_layers}, plan);
}

void PlanDraftTensors(std::span<const TensorRule> rules, std::string_view prefix, const DraftRules& draft,
                      NetworkPlan* plan) {
  const std::span<const TensorRule> parts[] = {rules, draft.rules};
  const int64_t layer = plan->spec.layers;
  const bool own = !draft.prefix.empty();
  PlanPart(JoinRules(parts), {own ? draft.prefix : prefix, "", own ? layer : 0}, false,
           {layer, plan->spec.all_layers()}, plan);
  for (const std::string_view copy : draft.copies) plan->ignored.push_back(DraftName(copy, prefix, draft, layer));
}

std::string WithLayer(std::string_view name, int64_t layer) {
  std::string out(name);
  if (const size_t at = out.find("{}"); at != std::string::npos) out.replace(at, 2, std::to_string(layer));
  return out;
}

std::string DraftName(std::string_view name, std::string_view prefix, const DraftRules& draft, int64_t layer) {
  const bool own = !draft.prefix.empty();
  return std::string(own ? draft.prefix : prefix) + WithLayer(name, own ? 0 : layer);
}

}  // namespace ringside
