// A request's reasoning settings. Plain values.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace ringside {

struct ReasoningSpec {
  enum class Mode : uint8_t { kDefault, kOff, kOn };
  Mode mode = Mode::kDefault;            // kDefault: the template's default
  std::string effort;                    // "none", "minimal", "low", "medium", "high", ...; "" = unset
  std::optional<int64_t> budget_tokens;  // limit of reasoning tokens; 0 = none
  std::string template_kwargs;           // JSON object of template variables; "" = none

  bool says_nothing() const {
    return mode == Mode::kDefault && effort.empty() && !budget_tokens && template_kwargs.empty();
  }
  friend bool operator==(const ReasoningSpec&, const ReasoningSpec&) = default;
};

}  // namespace ringside
