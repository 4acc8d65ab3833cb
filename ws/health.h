// Liveness and readiness for load balancers and service managers. Owned by the App.
// THREAD: any.
#pragma once

#include <cstdint>
#include <functional>
#include <mutex>
#include <optional>
#include <string>

#include "ws/transport/server.h"

namespace ringside {

/// Store statistics in /readyz: damage concerns single conversations, the others are served.
struct StoredCounts {
  int64_t conversations = 0, chains = 0;
  int64_t damaged = 0;   // conversations and chains, as far as read since the start
  bool checked = false;  // everything has been read since the start
};

class Health {
 public:
  /// Initially not ready, for `reason`.
  explicit Health(std::string reason) : reason_(std::move(reason)) {}

  /// Ready from now on while `trouble` returns ""; otherwise it returns the reason. It must not block.
  void SetReady(std::function<std::string()> trouble);
  void SetNotReady(std::string reason);
  void SetStored(const StoredCounts& stored);
  /// "" = ready; otherwise the reason.
  std::string NotReadyReason() const;
  /// nullopt without a store.
  std::optional<StoredCounts> stored() const;

 private:
  mutable std::mutex mutex_;
  std::string reason_;
  std::function<std::string()> trouble_;
  std::optional<StoredCounts> stored_;
};

/// /healthz and /livez: 200 as soon as the event loop answers. /readyz: 200 if a turn would be answered, otherwise 503
/// with the reason; both with the store's statistics. Aliases of other servers: /health and /v2/health/ready for
/// /readyz, /v2/health/live for /livez. No key is required.
/// REQUIRES: `health` outlives the service.
void AddHealthRoutes(Service& service, const Health& health);

}  // namespace ringside
