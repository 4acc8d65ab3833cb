// Short-lived tickets that open one WebSocket, for pages that must not hold the owner's key and cannot set headers. In
// memory only: a restart drops them. Owned by the App.
// THREAD: any.
#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>

#include "base/clock.h"
#include "base/sealed_box.h"
#include "base/status.h"
#include "ws/access/key_table.h"

namespace ringside {

class TicketBox {
 public:
  static constexpr size_t kMostOfOneOwner = 256, kMost = 16384;               // unused tickets
  static constexpr size_t kBytesOfOneOwner = 4 << 20, kMostBytes = 64 << 20;  // of session settings in unused tickets
  static constexpr int64_t kLeastSeconds = 10, kMostSeconds = 7200;

  explicit TicketBox(const Clock& clock = SystemClock::Instance()) : clock_(clock) {}

  /// Returns "ek_" and 256 random bits, valid for one upgrade within `seconds` on behalf of `identity`, chat scope
  /// only; Take returns its session settings.
  /// ERRORS: kOverloaded if too many of the owner's, or of all, tickets are unused.
  Result<std::string> Issue(Identity identity, int64_t seconds);
  /// Consumes a ticket and returns its identity; nullopt if it is unknown, used or expired.
  std::optional<Identity> Take(std::string_view ticket);
  /// True for any text with a ticket's prefix.
  static bool IsTicket(std::string_view text) { return text.starts_with("ek_"); }

 private:
  struct Waiting {
    Identity identity;
    int64_t ends_ns = 0;
  };
  Identity RemoveLocked(std::map<std::string, Waiting>::iterator at);
  void DropOldLocked(int64_t now_ns);

  const Clock& clock_;
  const SealKey key_ = SealKey::Random();  // tickets are indexed by a keyed hash, so that look-up times reveal nothing
  std::mutex mutex_;
  std::map<std::string, Waiting> waiting_;          // by code
  std::set<std::pair<int64_t, std::string>> ends_;  // the same codes by expiry
  struct Share {
    size_t tickets = 0, bytes = 0;
  };
  std::map<std::string, Share> of_principal_;
  size_t bytes_ = 0;
};

}  // namespace ringside
