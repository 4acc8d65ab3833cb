// Public descriptions of sessions. Plain values.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "engine/token_sink.h"
#include "session/chat/timeline/timeline.h"
#include "session/journal/journal.h"
#include "session/share.h"
#include "session/turn/turn_spec.h"

namespace ringside {

struct SessionInfo {
  std::string id;
  double created_at = 0;
  Metadata metadata;
  std::optional<std::string> instructions;  // system message; for a single session, not in lists
  std::vector<Share> shares;                // for a single session, not in lists; expired ones included
  int64_t items = 0, tokens = 0, position = 0, pinned = 0, tokens_evicted = 0;
  int64_t memory_len = 0, session_len = 0;
  Eviction eviction = Eviction::kTurn;
  std::string adapter;  // default of its next turn; "" = none
  std::string model;    // as in WindowOverrides
  std::string active_response_id;
  double updated_at = 0;                  // start of the last turn
  uint64_t epoch = 0;                     // incremented by each resume
  bool durable = false;                   // it is in the journal
  JournalPosition recorded;               // of the last synced record
  CacheSource cache = CacheSource::kNew;  // place of its cache; kNew = none
  std::string damage;                     // known damage of the stored session; "" = none
};

struct SessionVerdict {
  bool ok = false;
  uint64_t records = 0;
  std::string message;  // description of the damage
};

struct SessionTableStats {
  int64_t conversations = 0, chains = 0, loaded = 0;
  uint64_t loads = 0, unloads = 0, expired = 0, interrupted = 0;  // interrupted: turns cut by a crash
};

struct SessionPage {
  std::vector<SessionInfo> sessions;
  bool has_more = false;
};

/// An owner's share of the server.
struct OwnerTotals {
  std::string owner;
  int64_t conversations = 0, chains = 0;
  int64_t stored_bytes = 0, text_bytes = 0;  // in the journal; in memory
  int64_t turns = 0;                         // running and waiting
};

/// A share link that was made; its token exists here only.
struct NewShare {
  Share share;
  std::string token;
};

/// A conversation as a share link opens it.
struct SharedSession {
  SessionInfo info;
  SharedList<Item> items;
};

}  // namespace ringside
