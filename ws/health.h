// Whether the server lives and whether it can answer, for load balancers and service managers. Owned by the App; any
// thread.
#pragma once

#include <functional>
#include <mutex>
#include <string>

#include "ws/transport/server.h"

namespace ringside {

class Health {
 public:
  /// Starts as not ready, for `reason`.
  explicit Health(std::string reason) : reason_(std::move(reason)) {}

  /// Ready from now on, for as long as `trouble` returns "": it says what stands against answering. It must not block.
  void SetReady(std::function<std::string()> trouble);
  void SetNotReady(std::string reason);
  /// "" = ready; else why not.
  std::string NotReadyReason() const;

 private:
  mutable std::mutex mutex_;
  std::string reason_;
  std::function<std::string()> trouble_;
};

/// /healthz and /livez: 200 as soon as the event loop answers. /readyz: 200 if a turn would be answered, else 503 with
/// the reason. Aliases of other servers: /health and /v2/health/ready as /readyz, /v2/health/live as /livez. All are
/// open: they need no key. `health` outlives the service.
void AddHealthRoutes(Service& service, const Health& health);

}  // namespace ringside
