// Admission control by predicted wait: refuses turns that would wait for longer than the limit, on the threads that
// submit them, in constant time. Owned by TurnQueue. THREAD: any, except where stated.
#pragma once

#include <cstdint>
#include <mutex>
#include <optional>
#include <string>

#include "base/status.h"
#include "engine/engine_options.h"
#include "engine/overload/wait_forecast.h"
#include "engine/overload/wait_limit.h"

namespace ringside {

/// The work of a turn before its first token.
struct ExpectedPrompt {
  int64_t tokens = 0;  // to compute
  double load_ms = 0;  // to load its stored cache
};

class WaitControl {
 public:
  /// `limit_s`: 0 = no limit. REQUIRES: `served` outlives it.
  WaitControl(double limit_s, const VirtualTokenCounter& served);

  WaitForecast& forecast() { return forecast_; }
  const WaitForecast& forecast() const { return forecast_; }
  bool has_limit() const { return limit_.has_value(); }
  /// Decides about a turn of the tenant at this monotonic time. ERRORS: ServerOverload. Turns that are
  /// checked at the same moment do not see each other.
  Status Check(const std::string& tenant, const ExpectedPrompt& own, int64_t now_ns);
  /// True if Check would admit it.
  bool Admits(const std::string& tenant, const ExpectedPrompt& own) const;
  /// Sets the predicted wait and the number of refused turns.
  void AddTo(EngineStats* stats) const;

  /// A turn has ended that held its slot for this time. THREAD: engine.
  void NoteHeld(int64_t ns);
  /// The mean time for which turns hold their slots: of the recent ones, and at least the mean age of the running ones.
  /// THREAD: engine.
  double HeldNs(double mean_age_ns) const;

 private:
  double OwnS(const ExpectedPrompt& own) const;

  WaitForecast forecast_;
  double held_ns_ = 0;  // moving average; of the engine's thread
  mutable std::mutex mutex_;
  std::optional<WaitLimit> limit_;
  uint64_t refused_ = 0;
};

}  // namespace ringside
