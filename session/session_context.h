// State shared by all sessions of a table: settings, clocks, the journal, the engine, and queues from the sessions to
// the table. Owned jointly by the table and its sessions. Constant except for the queues and the counters. THREAD: any.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "base/clock.h"
#include "session/bytes_by_owner.h"
#include "session/chat/timeline/timeline.h"
#include "session/gathered.h"
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

/// State shared by all sessions of a table.
struct SessionContext {
  SessionTableOptions options;
  Codec codec;
  std::string codec_name;  // of the sessions' token ids; see SameCodec
  const Clock& clock;
  Journal* journal;  // null = memory only
  TurnEngine& engine;
  std::shared_ptr<GrammarCache> grammars;  // compiled answer formats
  std::pair<std::shared_ptr<const Tokenizer>, std::shared_ptr<const ChatTemplate>> text = {};  // owned parts of codec
  uint64_t epoch;  // initial epoch of sessions: below 2^52, exact in JSON
  /// Clock for the age of sessions and answers: Journal::UptimeSeconds, or the steady clock without a journal.
  double uptime_s() const {
    return journal != nullptr ? journal->UptimeSeconds() : static_cast<double>(clock.MonotonicNs()) * 1e-9;
  }
  // Filled by sessions on any thread, drained by the table.
  std::shared_ptr<Gathered<RetiredTimeline>> retired = std::make_shared<Gathered<RetiredTimeline>>();
  std::shared_ptr<Gathered<std::weak_ptr<Session>>> changed = std::make_shared<Gathered<std::weak_ptr<Session>>>();
  // Sessions indexed by history whose history has changed.
  std::shared_ptr<Gathered<std::weak_ptr<Session>>> histories = std::make_shared<Gathered<std::weak_ptr<Session>>>();
  std::shared_ptr<std::atomic<int64_t>> bytes = std::make_shared<std::atomic<int64_t>>(0);  // held by all sessions
  std::shared_ptr<BytesByOwner> bytes_by_owner = std::make_shared<BytesByOwner>();          // held per owner
  std::shared_ptr<BytesByOwner> stored_by_owner = std::make_shared<BytesByOwner>();         // journal bytes per owner
  std::shared_ptr<TokensByOwner> tokens_by_owner = std::make_shared<TokensByOwner>();
  std::shared_ptr<std::atomic<uint64_t>> interrupted = std::make_shared<std::atomic<uint64_t>>(0);
};

}  // namespace ringside
