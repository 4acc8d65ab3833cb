// State shared by all sessions of a table: settings, clocks, the journal, the engine, and queues from the sessions to
// the table. Owned jointly by the table and its sessions. Constant except for the shared counters. THREAD: any.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "base/clock.h"
#include "session/bytes_by_owner.h"
#include "session/chat/timeline/timeline.h"
#include "session/gathered.h"
#include "session/ids.h"
#include "session/journal/journal.h"
#include "session/session_options.h"
#include "session/tokens_by_owner.h"
#include "session/turn/turn_engine.h"

namespace ringside {

class GrammarCache;
class Session;

/// An engine timeline without references.
struct RetiredTimeline {
  TimelineId timeline = 0;
  bool keep = false;  // its cache is worth saving
};

/// Queues from the sessions to the table, and counters over all sessions: one object for the contexts of all models.
struct SharedCounters {
  const uint64_t epoch = RandomBits() >> 12;  // initial epoch of sessions: below 2^52, exact in JSON
  // Filled by sessions on any thread, drained by the table.
  Gathered<RetiredTimeline> retired;
  Gathered<std::weak_ptr<Session>> changed;
  Gathered<std::weak_ptr<Session>> histories;  // sessions indexed by history whose history has changed
  std::atomic<int64_t> bytes{0};               // held by all sessions
  BytesByOwner bytes_by_owner;                 // held per owner
  BytesByOwner stored_by_owner;                // journal bytes per owner
  TokensByOwner tokens_by_owner;
  std::atomic<uint64_t> interrupted{0};
};

/// State shared by the sessions of a table that have one model.
struct SessionContext {
  SessionTableOptions options;
  Codec codec;
  std::string codec_name;  // of the sessions' token ids; see SameCodec
  const Clock& clock;
  Journal* journal;  // null = memory only
  TurnEngine& engine;
  std::shared_ptr<GrammarCache> grammars;  // compiled answer formats
  std::pair<std::shared_ptr<const Tokenizer>, std::shared_ptr<const ChatTemplate>> text = {};  // owned parts of codec
  std::shared_ptr<SharedCounters> shared;
  /// Ids below this one may stand in a timeline. Those that pad a model's vocabulary have no text.
  int64_t vocabulary() const { return std::max(options.vocab, codec.tokenizer.vocab_size()); }
  /// Clock for the age of sessions and answers: Journal::UptimeSeconds, or the steady clock without a journal.
  double uptime_s() const {
    return journal != nullptr ? journal->UptimeSeconds() : static_cast<double>(clock.MonotonicNs()) * 1e-9;
  }
};

}  // namespace ringside
