// The refusal of a turn that would wait for too long, as a Status. The time after which a retry should succeed is part
// of its text, as in ContextOverflow: a Status keeps no more. Pure functions. THREAD: any.
#pragma once

#include <cstdint>
#include <optional>

#include "base/status.h"

namespace ringside {

struct ServerOverload {
  double wait_s = 0;          // predicted wait of the turn
  int64_t retry_after_s = 1;  // after this time a retry should succeed

  static constexpr const char* kReason = "server_overloaded";

  /// kOverloaded with kReason. ReadServerOverload parses it.
  Status ToStatus() const;
};

/// Parses a Status of ServerOverload::ToStatus; nullopt for any other Status, whatever its reason.
std::optional<ServerOverload> ReadServerOverload(const Status& status);

}  // namespace ringside
