// The fields of one request that have no effect on its answer: unknown ones, and hints that this server does not
// follow. Every face collects them here while it reads a request, then reports them. Plain object of the thread
// that reads the request.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "ws/json/json_value.h"

namespace ringside {

inline constexpr size_t kMaxIgnoredNames = 32;       // reported of one request; "..." follows where there are more
inline constexpr size_t kMaxIgnoredNameBytes = 128;  // of one name, the rest is cut

/// "tools[].type" of "tools[3].type".
std::string WithoutIndices(std::string_view param);

class IgnoredFields {
 public:
  /// `strict` (--strict-requests): every call below refuses instead. `prefix`: left out of the reported names.
  explicit IgnoredFields(bool strict = false, std::string prefix = "") : strict_(strict), prefix_(std::move(prefix)) {}

  /// A field that no table knows. ERRORS: unknown_parameter if strict.
  Status Unknown(std::string_view param);
  /// A known field whose value is not followed and could not change the answer. `what`: for the error.
  /// ERRORS: unsupported_value if strict.
  Status Hint(std::string_view param, std::string_view what);
  /// As Hint, unless the value is empty: that asks for nothing.
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
