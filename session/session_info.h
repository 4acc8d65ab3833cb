// What the session table tells of its sessions. Plain values.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "engine/token_sink.h"
#include "session/journal/journal.h"
#include "session/turn/turn_spec.h"

namespace ringside {

struct SessionInfo {
  std::string id;
  double created_at = 0;
  Metadata metadata;
  std::optional<std::string> instructions;  // the system message; of one session, not in a list
  int64_t items = 0, tokens = 0, position = 0, pinned = 0, tokens_evicted = 0;
  int64_t memory_len = 0, session_len = 0;
  Eviction eviction = Eviction::kTurn;
  std::string adapter;  // its next turn's, unless that names another; "" = none
  std::string active_response_id;
  double updated_at = 0;                  // when the last turn began
  uint64_t epoch = 0;                     // raised at each resume
  bool durable = false;                   // it is in the journal
  JournalPosition recorded;               // of the last record that was synced
  CacheSource cache = CacheSource::kNew;  // where its cache is; kNew = nowhere
  std::string damage;                     // what is known to be damaged of what is stored; "" = nothing
};

struct SessionVerdict {
  bool ok = false;
  uint64_t records = 0;
  std::string message;  // what is wrong
};

struct SessionTableStats {
  int64_t conversations = 0, chains = 0, loaded = 0;
  uint64_t loads = 0, unloads = 0, expired = 0, interrupted = 0;  // interrupted: turns that a crash had cut
};

struct SessionPage {
  std::vector<SessionInfo> sessions;
  bool has_more = false;
};

}  // namespace ringside
