// Ignored fields of one request: unknown fields, and unsupported hints. Each protocol collects them while it parses a
// request, then reports them.
// THREAD: the one that parses the request.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "ws/json/json_value.h"

namespace ringside {

inline constexpr size_t kMaxIgnoredNames = 32;       // reported per request; "..." follows if there are more
inline constexpr size_t kMaxIgnoredNameBytes = 128;  // of one name; the rest is cut

/// "tools[].type" of "tools[3].type".
std::string WithoutIndices(std::string_view param);

class IgnoredFields {
 public:
  /// `strict` (--strict-requests): every call below refuses instead. `prefix`: left out of the reported names.
  explicit IgnoredFields(bool strict = false, std::string prefix = "") : strict_(strict), prefix_(std::move(prefix)) {}

  /// Notes a field that is in no table.
  /// ERRORS: unknown_parameter if strict.
  Status Unknown(std::string_view param);
  /// Notes a known field whose value is not supported and could not change the answer. `what`: for the error.
  /// ERRORS: unsupported_value if strict.
  Status Hint(std::string_view param, std::string_view what);
  /// As Hint, unless the value is empty and so has no effect.
  Status HintUnlessEmpty(const JsonValue& value, std::string_view param);

  bool strict() const { return strict_; }
  /// Paths as errors have them ("text.verbosity"), in order; paths that differ in indices only are reported once.
  const std::vector<std::string>& names() const { return names_; }

 private:
  void Add(std::string_view param);

  bool strict_;
  std::string prefix_;
  std::vector<std::string> names_, seen_;  // seen_: the names without indices
};

}  // namespace ringside
