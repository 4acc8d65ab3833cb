// One conversation or chain: its timeline, the turn that runs on it, the responses it has given, who listens. Shared by
// the table and by running turns; every member function takes the session's own lock, sinks are called under it.
// Nothing here calls the engine or the table.
#pragma once

#include <atomic>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "engine/engine.h"
#include "session/event_sink.h"
#include "session/session_table.h"

namespace ringside {

/// A turn between StartTurn and its end.
struct ActiveTurn {
  TurnId id = 0;
  std::shared_ptr<Response> response;
  Timeline next;            // the timeline with this turn's input, to which the answer will be added
  bool announced = false;   // response.created is out
  bool recomputed = false;  // the text before the turn changed, whatever the cache then found
  std::vector<std::weak_ptr<EventSink>> sinks;
  std::vector<OutputToken> held;  // with logprobs: tokens whose text has not come yet
};

/// Timelines of the engine that nothing refers to any more. Filled by dying sessions, on any thread; emptied by the
/// table, which tells the engine.
class RetiredTimelines {
 public:
  void Add(TimelineId timeline) {
    std::lock_guard lock(mutex_);
    timelines_.push_back(timeline);
  }
  std::vector<TimelineId> Take() {
    std::lock_guard lock(mutex_);
    return std::exchange(timelines_, {});
  }

 private:
  std::mutex mutex_;
  std::vector<TimelineId> timelines_;
};

/// What is the same for all sessions of a table.
struct SessionContext {
  SessionTableOptions options;
  Codec codec;
  const Clock& clock;
  uint64_t epoch;  // below 2^53, exact in JSON
  std::shared_ptr<RetiredTimelines> retired;
  std::shared_ptr<std::atomic<int64_t>> bytes;  // held by all sessions
};

class Session {
 public:
  /// `id` is empty for a chain.
  Session(std::shared_ptr<const SessionContext> context, std::string id, std::string owner, Metadata metadata,
          WindowOverrides window);
  ~Session();
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  const std::string& id() const { return id_; }
  const std::string& owner() const { return owner_; }

  SessionInfo Info() const;
  std::vector<Item> Items() const;
  void SetMetadata(Metadata metadata);
  /// kBusy while a turn runs.
  Result<std::vector<Item>> AddItems(std::vector<NewItem> items);
  /// kBusy while a turn runs, kInvalidArgument if there are fewer items. Returns the ids of responses undone by it.
  Result<std::vector<std::string>> Rewind(int64_t items);
  /// As Rewind by item: `item` must be the last one. kNotFound if there is no such item.
  Result<std::vector<std::string>> DropLastItem(const std::string& item);
  /// The timeline's first `items` items (absent = all), for a fork.
  Result<Timeline> CopyTimeline(std::optional<int64_t> items) const;
  WindowOverrides window() const;
  Metadata metadata() const;
  TimelineId engine_timeline() const;
  /// For a new session: what a fork begins with. `engine_timeline` is the id it shall have.
  void Adopt(Timeline timeline, TimelineId engine_timeline);

  struct Prepared {
    TurnRequest request;
    TimelineId retired = 0;              // a timeline of the engine that nothing needs any more; 0 = none
    std::vector<std::string> forgotten;  // responses beyond the session's limit
  };
  /// Checks and renders a turn and makes it the running one. With `head`, only if no turn runs and that response is
  /// what the timeline ends with: kMismatch otherwise. Further errors: kBusy, kInvalidArgument (context_length_exceeded
  /// and others). After an error nothing has changed.
  Result<Prepared> Begin(const TurnSpec& spec, std::shared_ptr<Response> response, TurnId turn,
                         const std::shared_ptr<EventSink>& sink, const std::string& head);
  /// The engine took the turn: it may be announced (unless the engine was faster).
  void Announce(TurnId turn);
  /// The engine refused the turn: as if it had never been.
  void Abandon(TurnId turn);
  /// A turn that needs no engine: it ends as completed with nothing generated.
  void FinishEmpty(TurnId turn);
  /// The running turn if it belongs to `response` (empty: any); 0 = none.
  TurnId Running(const std::string& response) const;

  // From the engine's thread, through TurnSink.
  void OnStart(TurnId turn, const CacheReport& report);
  void OnTokens(TurnId turn, const TokenDelta& delta);
  void OnEnd(TurnId turn, const TurnEnd& end);

  /// Runs `read` under the lock.
  template <class Read>
  auto Locked(const Read& read) const {
    std::lock_guard lock(mutex_);
    return read();
  }
  /// Items of the input of a response, up to its answer.
  std::vector<Item> InputItems(const Response& response) const;
  /// Gives `sink` the events of `response` from wire number `from` on, and the coming ones.
  void Replay(const Response& response, int64_t from, const std::shared_ptr<EventSink>& sink);
  void Resume(const std::string& name, std::optional<uint64_t> epoch, std::optional<uint64_t> after,
              const std::shared_ptr<EventSink>& sink);
  /// Drops a response from the session's list.
  void Forget(const std::string& response);
  std::vector<std::string> ResponseIds() const;

 private:
  Item MakeItem(NewItem item) const;
  RingWindow Window(int64_t pinned) const;
  int64_t SessionLen() const;
  Status Check(const TurnSpec& spec, const Timeline& next) const;
  SamplingParams Sampling(const TurnSpec& spec) const;
  void AnnounceLocked();
  void Emit(TurnEvent::Kind kind, std::string_view text = {}, std::span<const OutputToken> tokens = {});
  void EmitDelta(std::string_view text);
  void Finish(const TurnEnd& end);
  std::vector<std::string> Truncate(size_t items);
  /// Brings the context's count of bytes up to date.
  void CountBytes();
  static void ReplayTo(EventSink& sink, const Response& response, int64_t from);

  const std::shared_ptr<const SessionContext> context_;
  const std::string id_, owner_;
  const double created_at_;

  mutable std::mutex mutex_;
  Metadata metadata_;
  WindowOverrides window_;
  Timeline timeline_;
  std::string head_;                                 // the response that the timeline ends with; "" = none
  std::deque<std::shared_ptr<Response>> responses_;  // oldest first
  std::optional<ActiveTurn> running_;
  std::weak_ptr<EventSink> attached_;  // by Resume
  uint64_t next_seq_ = 0;
  TimelineId engine_timeline_ = 0;
  RingWindow engine_window_;
  CacheReport last_report_;
  int64_t bytes_ = 0;  // as counted last
};

/// A process-wide number for turns and timelines, never 0.
uint64_t NextEngineId();

}  // namespace ringside
