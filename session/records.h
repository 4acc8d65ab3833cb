// What a session writes into the journal: one struct per kind of record, and its bytes. What these records say, in
// their order, is the session: applying them to an empty one gives it back. Plain values; decoding treats bytes as
// hostile and says kCorruption. A token id that no vocabulary can have is read as -1.
//
// A turn is kTurn, then kStarted, kTokens ... and kEnd, or kInterrupted where the server could not finish the answer:
// written when the turn ends, or by the next start after a crash. A turn that the engine refused is kTurn, kAbandoned.
// Token ids are those of the codec that the last kCreated or kRetokenised names; what stood before a kRetokenised lost
// its ids, and a turn that ran was cut by it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "session/chat/timeline.h"
#include "session/journal/journal.h"
#include "session/turn/response.h"
#include "session/turn/turn_spec.h"

namespace ringside {

enum class RecordType : uint8_t {
  kCreated = 1,
  kMetadata = 2,
  kTimeline = 3,
  kTurn = 4,
  kStarted = 5,
  kTokens = 6,
  kEnd = 7,
  kAttached = 8,
  kForgotten = 9,
  kAbandoned = 10,
  kRetokenised = 11,
  kInterrupted = 12,
};

/// First of every session.
struct CreatedRecord {
  std::string owner;
  double created_at = 0;
  Metadata metadata;
  WindowOverrides window;
  uint64_t epoch = 0;
  std::string codec;  // whose token ids follow; see SameCodec
};

struct TimelineRecord {
  TimelinePatch patch;
  bool truncates = false;  // responses that lie behind what is left go with it
};

struct TurnRecord {
  std::string response_id, item_id, previous_id, request_key, echo;
  bool stored = true;  // false: no one can see the response after a restart
  bool warm_up = false, logprobs = false, recomputed = false;
  bool renumbers = false;  // its events were told before they were durable
  double created_at = 0;
  TimelinePatch patch;  // from the timeline to the one that is answered
  int64_t items_before = 0;
  SamplingParams sampling;  // but for bad words, which the request's fields (echo) have
  int64_t max_tokens = 0;
  ClampedLimits clamped;
  CallPlace calls = CallPlace::kNone;
  ToolSyntaxName syntax = ToolSyntaxName::kHermes;
  SharedText form;  // what Encode(AnswerForm) makes of how it was asked for
  std::string adapter;
  std::vector<std::string> ignored_reasoning;
  std::string compaction;
};

struct TokensRecord {
  std::vector<OutputToken> tokens;
  std::string text;
  // As TokenDelta has them.
  std::string reasoning = {};
  int64_t reasoning_tokens = 0;
  bool reasoning_ended = false;
};

struct EndRecord {
  FinishReason reason = FinishReason::kStop;
  std::string incomplete_reason, stop_string;
  Status error;
  std::vector<TokenId> tail;  // sampled ids that no kTokens record has
  CacheReport report;
  TurnTimes times;
  double completed_at = 0;
  double ended_s = 0;  // by uptime
  int64_t reasoning_tokens = 0;
  bool cut_in_reasoning = false;
};

/// The answer ends with what the records before this one hold.
struct InterruptedRecord {
  Status cause;  // ok where it is unknown: after a crash
};

struct AttachedRecord {
  uint64_t epoch = 0;
};

/// What a start wants to know of every session, and a list of those that it shows.
struct SessionSummary {
  std::string owner;
  double created_at = 0, updated_at = 0;
  /// What follows is so as of this record; where that is not the last one, the session must be read. 0: nothing of it
  /// is told, by an older version or while a turn runs.
  uint64_t seq = 0;
  Metadata metadata;
  WindowOverrides window;
  int64_t items = 0, tokens = 0, position = 0, pinned = 0, tokens_evicted = 0;
  uint64_t epoch = 0;
  double used_s = 0;  // by uptime; 0 in what an older version wrote
};

/// True if token ids stored under the codec's name `stored` are those of `ours`. A name says the vocabulary and, behind
/// a point, the chat template; older ones end before the point and are taken for what they were.
bool SameCodec(std::string_view stored, std::string_view ours);

JournalRecord Encode(const CreatedRecord& record);
JournalRecord EncodeMetadata(const Metadata& metadata);
JournalRecord Encode(const TimelineRecord& record);
JournalRecord Encode(const TurnRecord& record);
JournalRecord EncodeStarted(const CacheReport& report);
JournalRecord Encode(const TokensRecord& record, bool logprobs);
JournalRecord Encode(const EndRecord& record);
JournalRecord Encode(const AttachedRecord& record);
JournalRecord EncodeForgotten(const std::string& response_id);
JournalRecord EncodeAbandoned();
JournalRecord Encode(const InterruptedRecord& record);
JournalRecord EncodeRetokenised(const std::string& codec);
std::string Encode(const SessionSummary& summary);

Result<CreatedRecord> DecodeCreated(std::string_view bytes);
Result<Metadata> DecodeMetadata(std::string_view bytes);
Result<TimelineRecord> DecodeTimeline(std::string_view bytes);
/// The same of bytes that anybody may have made. kInvalidArgument, before there is memory for them, if they hold more
/// than kMaxTimelineItems items (array_above_max_length) or `max_tokens` tokens (context_length_exceeded).
Result<TimelineRecord> DecodeImportedTimeline(std::string_view bytes, int64_t max_tokens);
Result<TurnRecord> DecodeTurn(std::string_view bytes);
Result<CacheReport> DecodeStarted(std::string_view bytes);
Result<TokensRecord> DecodeTokens(std::string_view bytes);
Result<EndRecord> DecodeEnd(std::string_view bytes);
Result<InterruptedRecord> DecodeInterrupted(std::string_view bytes);
Result<AttachedRecord> DecodeAttached(std::string_view bytes);
/// The response's id, or the codec's.
Result<std::string> DecodeName(std::string_view bytes);
Result<SessionSummary> DecodeSummary(std::string_view bytes);

}  // namespace ringside
