// Which ignored fields the log has named: one line for each key and field, within a fixed memory. Owned by the
// application. Any thread.
#pragma once

#include <cstddef>
#include <functional>
#include <mutex>
#include <string>
#include <unordered_map>
#include <unordered_set>

namespace ringside {

inline constexpr size_t kMaxLoggedFieldsPerOwner = 64;
inline constexpr size_t kMaxLoggedFields = 4096;  // of all owners; each takes about 100 bytes

class IgnoredLog {
 public:
  /// Whether a line is due: the owner sent this field for the first time, and neither limit is reached. `field` may
  /// hold indices, which do not count.
  bool IsNew(const std::string& owner, const std::string& field);

 private:
  std::mutex mutex_;
  std::unordered_set<size_t> logged_;                  // hashes of owner and field
  std::unordered_map<size_t, size_t> count_of_owner_;  // by the owner's hash
};

/// The name as the log has it: as it is if it reads like a field of an API, at most 64 of a-z 0-9 _ - . [ ], else "?":
/// whatever else a client wrote there may be private.
std::string LoggedName(const std::string& field);
/// SessionTableOptions::on_ignored that writes those lines; each call makes another log.
std::function<void(const std::string& owner, const std::string& field)> LogIgnoredFields();

}  // namespace ringside
