#include "engine/model/adapters/peft_config.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "engine/files/flat_json.h"
#include "engine/model/adapters/adapter_file.h"

namespace ringside {
namespace {

// Settings that change the result and are not supported. The keys may be present with an empty value.
constexpr const char* kFlags[] = {"use_dora", "lora_bias", "use_qalora"};
constexpr const char* kSettings[] = {"modules_to_save", "trainable_token_indices", "layer_replication",
                                     "target_parameters", "alora_invocation_tokens"};

Status Lacks(const char* what) {
  return InvalidArgument(fmt::format("adapter_config.json has {}, which is not supported", what));
}

bool IsNothing(const FlatJson::Value& value) {
  const auto* array = std::get_if<FlatJson::Array>(&value);
  return std::holds_alternative<FlatJson::Null>(value) || (array != nullptr && array->members == 0);
}

Status CheckSettings(const FlatJson& json) {
  if (const auto type = json.String("peft_type").value_or(""); type != "LORA") {
    return InvalidArgument(fmt::format("adapter_config.json: peft_type is '{}'; only LORA is supported", type));
  }
  for (const char* flag : kFlags) {
    if (json.Bool(flag).value_or(false)) return Lacks(flag);
  }
  for (const char* setting : kSettings) {
    const FlatJson::Value* value = json.Find(setting);
    if (value != nullptr && !IsNothing(*value)) return Lacks(setting);
  }
  if (json.String("bias").value_or("none") != "none") return Lacks("bias");
  return Status::Ok();
}

bool IsPlainName(std::string_view name) {
  return !name.empty() && std::ranges::all_of(name, [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '-' ||
           c == '.';
  });
}

}  // namespace

bool NamesModule(std::string_view name, std::string_view module) {
  if (!module.ends_with(name)) return false;
  return module.size() == name.size() || module[module.size() - name.size() - 1] == '.';
}

Result<PeftConfig> PeftConfig::Read(const std::string& path) {
  ASSIGN_OR_RETURN(const FlatJson json, FlatJson::ReadFile(path));
  RETURN_IF_ERROR(CheckSettings(json));
  PeftConfig out;
  const auto rank = json.Int("r");
  const auto alpha = json.Float("lora_alpha");
  if (!rank || !alpha || !std::isfinite(*alpha)) return Corruption("adapter_config.json lacks r or lora_alpha");
  out.rank_ = static_cast<double>(*rank);
  out.alpha_ = *alpha;
  out.by_root_ = json.Bool("use_rslora").value_or(false);
  ASSIGN_OR_RETURN(out.ranks_, ReadPattern(json, "rank_pattern"));
  ASSIGN_OR_RETURN(out.alphas_, ReadPattern(json, "alpha_pattern"));
  const FlatJson::Value* targets = json.Find("target_modules");
  const auto* list = targets == nullptr ? nullptr : std::get_if<FlatJson::Array>(targets);
  for (int64_t i = 0; list != nullptr && i < list->members; ++i) {
    const auto name = json.String(fmt::format("target_modules.{}", i));
    if (!name) return Corruption("adapter_config.json: target_modules has an entry that is not a string");
    out.targets_.push_back(*name);
  }
  return out;
}

// PEFT treats the names as regular expressions; those that it writes itself are plain.
Result<PeftConfig::Pattern> PeftConfig::ReadPattern(const FlatJson& json, const std::string& name) {
  Pattern pattern;
  for (const auto& [path, value] : json.values()) {
    if (!path.starts_with(name + ".")) continue;
    const std::string key = path.substr(name.size() + 1);
    const auto number = json.Float(path);
    if (!IsPlainName(key)) {
      return InvalidArgument(fmt::format("adapter_config.json: {} has '{}', which is not a plain name", name, key));
    }
    if (!number || !std::isfinite(*number)) {
      return Corruption(fmt::format("adapter_config.json: {} has no number for '{}'", name, key));
    }
    pattern.emplace(key, *number);
  }
  return pattern;
}

Result<double> PeftConfig::Of(const Pattern& pattern, const char* name, std::string_view module, double otherwise) {
  const double* found = nullptr;
  for (const auto& [key, value] : pattern) {
    if (!NamesModule(key, module)) continue;
    if (found != nullptr && *found != value) {
      return Corruption(fmt::format("adapter_config.json: two entries of {} name '{}'", name, module));
    }
    found = &value;
  }
  return found == nullptr ? otherwise : *found;
}

Result<double> PeftConfig::ScaleOf(std::string_view module, int64_t rank) const {
  ASSIGN_OR_RETURN(const double wanted, Of(ranks_, "rank_pattern", module, rank_));
  ASSIGN_OR_RETURN(const double alpha, Of(alphas_, "alpha_pattern", module, alpha_));
  const auto own = static_cast<double>(rank);
  if (own != wanted) {
    return Corruption(fmt::format("module '{}' has the rank {}, but adapter_config.json has {}", module, rank, wanted));
  }
  return alpha / (by_root_ ? std::sqrt(own) : own);
}

}  // namespace ringside
