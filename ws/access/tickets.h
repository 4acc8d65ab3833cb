// Short-lived keys that open one WebSocket, for pages that must not hold the owner's key and cannot set headers. Kept
// in memory only: a restart forgets them. Owned by the App; any thread.
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
  static constexpr size_t kMostOfOneOwner = 256, kMost = 16384;               // waiting to be used
  static constexpr size_t kBytesOfOneOwner = 4 << 20, kMostBytes = 64 << 20;  // of what they say of their sessions
  static constexpr int64_t kLeastSeconds = 10, kMostSeconds = 7200;

  explicit TicketBox(const Clock& clock = SystemClock::Instance()) : clock_(clock) {}

  /// "ek_" and 256 random bits, good for one upgrade within `seconds`, in the name of `identity` and for chat only;
  /// what it says of the session is told by Take. kOverloaded if the owner, or all of them, have too much waiting.
  Result<std::string> Issue(Identity identity, int64_t seconds);
  /// Whom the ticket stands for; nothing for one that is unknown, used or too old. It is used up by this.
  std::optional<Identity> Take(std::string_view ticket);
  /// True for whatever looks like a ticket.
  static bool IsTicket(std::string_view text) { return text.starts_with("ek_"); }

 private:
  struct Waiting {
    Identity identity;
    int64_t ends_ns = 0;
  };
  Identity RemoveLocked(std::map<std::string, Waiting>::iterator at);
  void DropOldLocked(int64_t now_ns);

  const Clock& clock_;
  const SealKey key_ = SealKey::Random();  // tickets are found by their codes under it: a look-up tells nothing of them
  std::mutex mutex_;
  std::map<std::string, Waiting> waiting_;          // by code
  std::set<std::pair<int64_t, std::string>> ends_;  // the same codes by their ends
  struct Share {
    size_t tickets = 0, bytes = 0;
  };
  std::map<std::string, Share> of_principal_;
  size_t bytes_ = 0;
};

}  // namespace ringside
