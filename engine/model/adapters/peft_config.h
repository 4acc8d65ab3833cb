// The adapter_config.json of a LoRA adapter in PEFT format. Immutable. THREAD: any.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace ringside {

class FlatJson;

/// True if `name`, from target_modules or a pattern, denotes the module: equals it, or equals its end after a dot.
bool NamesModule(std::string_view name, std::string_view module);

class PeftConfig {
 public:
  /// ERRORS: kNotFound, kIo; kCorruption for a malformed file; kInvalidArgument, with the name, for an unsupported
  /// setting.
  static Result<PeftConfig> Read(const std::string& path);

  /// The adapted modules; empty if given by a regular expression.
  const std::vector<std::string>& targets() const { return targets_; }
  /// s = alpha / r, or alpha / sqrt(r) with use_rslora (Kalajdzievski 2023); a pattern that matches the module
  /// overrides alpha and r. ERRORS: kCorruption unless r is `rank`, or if two entries of a pattern match the module.
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
