// Whether the server lives and whether it can answer, for load balancers and service managers. Owned by the App; any
// thread.
#pragma once

#include <cstdint>
#include <functional>
#include <mutex>
#include <optional>
#include <string>

#include "ws/transport/server.h"

namespace ringside {

/// What /readyz tells of the store: damage in it concerns single conversations, the others are served.
struct StoredCounts {
  int64_t conversations = 0, chains = 0;
  int64_t damaged = 0;   // of both, as far as they have been read since the start
  bool checked = false;  // everything has been read since then
};

class Health {
 public:
  /// Starts as not ready, for `reason`.
  explicit Health(std::string reason) : reason_(std::move(reason)) {}

  /// Ready from now on, for as long as `trouble` returns "": it says what stands against answering. It must not block.
  void SetReady(std::function<std::string()> trouble);
  void SetNotReady(std::string reason);
  void SetStored(const StoredCounts& stored);
  /// "" = ready; else why not.
  std::string NotReadyReason() const;
  /// nullopt where nothing is stored.
  std::optional<StoredCounts> stored() const;

 private:
  mutable std::mutex mutex_;
  std::string reason_;
  std::function<std::string()> trouble_;
  std::optional<StoredCounts> stored_;
};

/// /healthz and /livez: 200 as soon as the event loop answers. /readyz: 200 if a turn would be answered, else 503 with
/// the reason; both with what is known of the store. Aliases of other servers: /health and /v2/health/ready as /readyz, /v2/health/live as /livez. All are
/// open: they need no key. `health` outlives the service.
void AddHealthRoutes(Service& service, const Health& health);

}  // namespace ringside
