// The adapter_config.json of a LoRA adapter in PEFT's format. Immutable; any thread.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace ringside {

class FlatJson;

/// Whether a name of target_modules or of a pattern is that of a module: all of it, or its end behind a point.
bool NamesModule(std::string_view name, std::string_view module);

class PeftConfig {
 public:
  /// kNotFound, kIo, kCorruption for a file that is none; kInvalidArgument, naming it, for a setting that we lack.
  static Result<PeftConfig> Read(const std::string& path);

  /// What is adapted; empty where a regular expression says it.
  const std::vector<std::string>& targets() const { return targets_; }
  /// s = alpha / r, or alpha / sqrt(r) with use_rslora (Kalajdzievski 2023), by the patterns' alpha and r where they
  /// name the module. kCorruption unless r is `rank`, and where two entries of a pattern name the module.
  Result<double> ScaleOf(std::string_view module, int64_t rank) const;

 private:
  using Pattern = std::map<std::string, double, std::less<>>;
  static Result<Pattern> ReadPattern(const FlatJson& json, const std::string& name);
  static Result<double> Of(const Pattern& pattern, const char* name, std::string_view module, double otherwise);

  double rank_ = 0, alpha_ = 0;
  bool by_root_ = false;
  Pattern ranks_, alphas_;
  std::vector<std::string> targets_;
};

}  // namespace ringside
