// Where the database is: a URL as libpq reads it, with one or more hosts. Owned by the log; shared by its connections.
// THREAD: any.
#pragma once

#include <atomic>
#include <string>
#include <utility>
#include <vector>

#include "base/status.h"

namespace ringside {

class PostgresTarget {
 public:
  using Settings = std::vector<std::pair<std::string, std::string>>;  // of libpq, by name

  /// Accepts "postgresql://..." and "postgres://...". The connections report `application` as their name. Settings of
  /// the URL take precedence: TLS, target_session_attrs (read-write by default), keep-alive times.
  /// ERRORS: kInvalidArgument, without any part of the URL, which may hold a password.
  static Result<std::vector<Settings>> Parse(const std::string& url, const std::string& application);

  /// REQUIRES: hosts is of Parse.
  explicit PostgresTarget(std::vector<Settings> hosts) : hosts_(std::move(hosts)) {}

  /// Settings of one host each, in the order to try them: the last one that answered comes first.
  std::vector<const Settings*> InOrder() const;
  void Prefer(const Settings* host) const { preferred_ = static_cast<size_t>(host - hosts_.data()); }

 private:
  const std::vector<Settings> hosts_;
  mutable std::atomic<size_t> preferred_{0};
};

}  // namespace ringside
