#include "ws/fields/ignored_fields.h"

#include <algorithm>

#include "ws/fields/field_readers.h"

namespace ringside {
std::string WithoutIndices(std::string_view param) {
  std::string out;
  bool inside = false;
  for (const char c : param) {
    if (c == ']') inside = false;
    if (!inside) out += c;
    if (c == '[') inside = true;
  }
  return out;
}

Status IgnoredFields::Unknown(std::string_view param) {
  if (strict_) return UnknownParameter(param.substr(0, 2 * kMaxIgnoredNameBytes));
  Add(param);
  return Status::Ok();
}

Status IgnoredFields::Hint(std::string_view param, std::string_view what) {
  if (strict_) return Unsupported(param, what);
  Add(param);
  return Status::Ok();
}

Status IgnoredFields::HintUnlessEmpty(const JsonValue& value, std::string_view param) {
  return IsEmpty(value) ? Status::Ok() : Hint(param, "'" + std::string(param) + "'");
}

void IgnoredFields::Add(std::string_view param) {
  if (names_.size() > kMaxIgnoredNames) return;
  if (param.starts_with(prefix_)) param.remove_prefix(prefix_.size());
  param = param.substr(0, kMaxIgnoredNameBytes);
  std::string kind = WithoutIndices(param);
  if (std::ranges::find(seen_, kind) != seen_.end()) return;
  seen_.push_back(std::move(kind));
  names_.emplace_back(names_.size() < kMaxIgnoredNames ? param : "...");
}

}  // namespace ringside
