#include "ws/fields/ignored_log.h"

#include <algorithm>
#include <memory>
#include <string_view>

#include "base/log.h"
#include "ws/fields/ignored_fields.h"

namespace ringside {

bool IgnoredLog::IsNew(const std::string& owner, const std::string& field) {
  const std::hash<std::string> hash;
  const size_t who = hash(owner), what = hash(owner + '\n' + WithoutIndices(field));
  std::lock_guard lock(mutex_);
  if (logged_.size() >= kMaxLoggedFields || logged_.contains(what)) return false;
  size_t& count = count_of_owner_[who];
  if (count >= kMaxLoggedFieldsPerOwner) return false;
  ++count;
  logged_.insert(what);
  return true;
}

std::string LoggedName(const std::string& field) {
  constexpr size_t kMaxBytes = 64;
  const bool plain = std::ranges::all_of(field, [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || std::string_view("_-.[]").find(c) != std::string::npos;
  });
  return plain && !field.empty() && field.size() <= kMaxBytes ? field : "?";
}

std::function<void(const std::string& owner, const std::string& field)> LogIgnoredFields() {
  return [log = std::make_shared<IgnoredLog>()](const std::string& owner, const std::string& name) {
    const std::string field = LoggedName(name);
    if (!log->IsNew(owner, field)) return;
    WriteLog(LogLevel::kInfo, "a request's field without effect is ignored: " + field,
             {{"event", "ignored_field"}, {"owner", owner}, {"field", field}});
  };
}

}  // namespace ringside
