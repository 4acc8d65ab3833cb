// Takes a server of a shared store out of service: its conversations become the other servers', and its turns are
// refused. GET /v1/server, POST /v1/server/drain and .../resume, scope admin. THREAD: any.
#pragma once

#include <atomic>
#include <functional>

#include "session/table/session_table.h"
#include "ws/health.h"
#include "ws/transport/http/http.h"

namespace ringside {

class Handover {
 public:
  /// `refuse_turns(true)`: new turns get 503 until `refuse_turns(false)`. `trouble`: as for Health::SetReady. All
  /// arguments outlive this object.
  Handover(SessionTable& sessions, Health& health, std::function<void(bool)> refuse_turns,
           std::function<std::string()> trouble);

  void Begin();
  void End();
  bool begun() const { return begun_; }
  /// Conversations that only this server may change.
  int64_t held() const { return sessions_.Held(); }

 private:
  SessionTable& sessions_;
  Health& health_;
  const std::function<void(bool)> refuse_turns_;
  const std::function<std::string()> trouble_;
  std::atomic<bool> begun_{false};
};

/// REQUIRES: `handover` outlives the router.
void AddServerRoutes(Router& router, Handover& handover);

}  // namespace ringside
