// The engine as sessions use it: accepts turns and keeps their caches. Implemented by the server's AppEngine and by
// tests. No function blocks, and only Cancel may be called under a session's lock. See Engine for their contracts.
// THREAD: any.
#pragma once

#include <optional>
#include <string>

#include "base/status.h"
#include "engine/turn_request.h"

namespace ringside {

class TurnEngine {
 public:
  virtual ~TurnEngine() = default;
  /// Called once before Submit, and before the turn is recorded.
  virtual Status CheckWait(const TurnRequest& request) = 0;
  virtual Status Submit(TurnRequest request) = 0;
  virtual void Cancel(TurnId turn) = 0;
  virtual void Close(TimelineId timeline) = 0;
  virtual void Park(TimelineId timeline) = 0;
  /// `from` and `to` are 0 without a timeline; owners are the sessions' keys, "" without one. If the first turn of `to`
  /// follows at once, TurnRequest::forked_from avoids a copy in the tiers.
  virtual void Fork(TimelineId from, TimelineId to, const std::string& from_owner, const std::string& to_owner) = 0;
  virtual void Erase(TimelineId timeline, const std::string& owner) = 0;
  virtual void Prefetch(const std::string& owner) = 0;
  virtual std::optional<CacheSource> Where(const std::string& owner) const = 0;
};

}  // namespace ringside
