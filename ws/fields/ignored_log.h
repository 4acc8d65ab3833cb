// Log of ignored fields: one line per key and field, in bounded memory. Owned by the application.
// THREAD: any.
#pragma once

#include <cstddef>
#include <functional>
#include <mutex>
#include <string>
#include <unordered_map>
#include <unordered_set>

namespace ringside {

inline constexpr size_t kMaxLoggedFieldsPerOwner = 64;
inline constexpr size_t kMaxLoggedFields = 4096;  // over all owners; each takes about 100 bytes

class IgnoredLog {
 public:
  /// True if a line is due: this owner's first use of this field, within both limits. Indices in `field` are ignored.
  bool IsNew(const std::string& owner, const std::string& field);

 private:
  std::mutex mutex_;
  std::unordered_set<size_t> logged_;                  // hashes of owner and field
  std::unordered_map<size_t, size_t> count_of_owner_;  // by the owner's hash
};

/// The name as logged: unchanged if it resembles a field of an API (at most 64 of a-z 0-9 _ - . [ ]), otherwise "?",
/// because other text may be private.
std::string LoggedName(const std::string& field);
/// SessionTableOptions::on_ignored that writes those lines; each call makes another log.
std::function<void(const std::string& owner, const std::string& field)> LogIgnoredFields();

}  // namespace ringside
