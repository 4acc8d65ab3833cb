// The contents of a session, as its journal records restore them: plain data. Owned by its Session, used under the
// session's lock.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "base/status.h"
#include "engine/token_sink.h"
#include "session/chat/timeline/timeline.h"
#include "session/records.h"
#include "session/share.h"
#include "session/turn/response_list.h"

namespace ringside {

struct Conversation {
  double created_at = 0, updated_at = 0;
  double used_s = 0;  // by uptime: creation, or start of the last turn
  Metadata metadata;
  std::string adapter;  // default adapter of the next turn
  std::string model;    // as in WindowOverrides
  Timeline timeline;
  std::string head;  // response at the end of the timeline; "" = none
  ResponseList responses;
  std::vector<Share> shares;            // as stored: expired ones as well
  uint64_t epoch = 0, first_epoch = 0;  // the current one; the oldest one with valid sequence numbers
  CacheReport report;                   // of the last turn

  /// Checks that there is room for `added` more items. `param`: of the request, for the error.
  /// ERRORS: kInvalidArgument.
  Status CheckItems(size_t added, const char* param) const;
  /// Discards all token ids; the text is kept.
  void ForgetIds();
};

}  // namespace ringside
