// Checks submitted turns against the limits of the network, the options and the pool. Immutable; owned by EngineLoop.
// THREAD: any.
#pragma once

#include <cstdint>

#include "base/status.h"
#include "cache/kv_pool.h"
#include "engine/engine_options.h"
#include "engine/model/network.h"
#include "engine/turn_request.h"

namespace ringside {

class TurnLimits {
 public:
  /// REQUIRES: all references outlive it.
  TurnLimits(const Network& network, const EngineOptions& options, const KvPool& pool)
      : network_(network), options_(options), pool_(pool), shape_(network.shape()) {}

  /// Checks a turn and completes it: prepends the adapter's virtual tokens to its timeline, and sets the answer limit
  /// of beams that have none. ERRORS: kInvalidArgument, naming the parameter, if the turn can never run.
  Status Accept(TurnRequest* request) const;
  /// Limit of the timeline's length in tokens, virtual ones excluded.
  int64_t SessionLimit(const TurnRequest& request) const;

 private:
  Status Check(const TurnRequest& request) const;
  Status CheckImages(const TurnRequest& request) const;
  Status CheckEmbedded(const TurnRequest& request) const;
  /// Checks that beam search is possible; sets an answer limit if the turn has none.
  Status CheckBeams(TurnRequest& request) const;
  /// Lowers the number of pinned tokens to the beginning of an image that it would divide.
  void KeepImagesWhole(TurnRequest* request) const;
  void PrependVirtualTokens(TurnRequest* request) const;

  const Network& network_;
  const EngineOptions& options_;
  const KvPool& pool_;
  const NetworkShape shape_;
};

}  // namespace ringside
