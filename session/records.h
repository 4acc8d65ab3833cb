// Journal records of a session: one struct per kind, with its encoding. Applying a session's records in order to an
// empty session restores it. Plain values; decoding treats input as hostile (kCorruption). A token id outside every
// vocabulary is decoded as -1. A turn is kTurn, then kStarted, kTokens ... and kEnd, or kInterrupted if the server
// could not finish the answer: written when the turn ends, or by the next start after a crash. A turn that the engine
// refused is kTurn, kAbandoned. A kModel names the model of a session that was created without one. Token ids belong to
// the codec named by the last kCreated or kRetokenised; a kRetokenised discards the ids of earlier records and cuts a
// running turn.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "session/chat/timeline/timeline.h"
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
  kModel = 13,
  kShared = 14,    // session/share.h
  kUnshared = 15,  // as well
  kImage = 16,     // image_records.h; precedes the records whose items have the image
};

/// First record of every session.
struct CreatedRecord {
  std::string owner;
  double created_at = 0;
  Metadata metadata;
  WindowOverrides window;
  uint64_t epoch = 0;
  std::string codec;  // of the token ids that follow; see SameCodec
};

struct TimelineRecord {
  TimelinePatch patch;
  bool truncates = false;  // also removes responses behind the remaining items
};

struct TurnRecord {
  std::string response_id, item_id, previous_id, request_key, echo;
  bool stored = true;  // false: the response is not visible after a restart
  bool warm_up = false, logprobs = false, recomputed = false;
  bool renumbers = false;  // events were sent before they were durable
  double created_at = 0;
  TimelinePatch patch;  // changes the timeline to the one that is answered
  int64_t items_before = 0;
  SamplingParams sampling;  // except bad words, which are in the request's fields (echo)
  int64_t max_tokens = 0;
  ClampedLimits clamped;
  CallPlace calls = CallPlace::kNone;
  ToolSyntaxName syntax = ToolSyntaxName::kHermes;
  SharedText form;  // Encode(AnswerForm) of the requested form
  std::string adapter;
  std::vector<std::string> ignored_reasoning;
  std::string compaction;
};

struct TokensRecord {
  std::vector<OutputToken> tokens;
  std::string text;
  // As in TokenDelta.
  std::string reasoning = {};
  int64_t reasoning_tokens = 0;
  bool reasoning_ended = false;
};

struct EndRecord {
  FinishReason reason = FinishReason::kStop;
  std::string incomplete_reason, stop_string;
  Status error;
  std::vector<TokenId> tail;  // sampled ids that are in no kTokens record
  CacheReport report;
  DraftReport drafts;
  TurnTimes times;
  double completed_at = 0;
  double ended_s = 0;  // by uptime
  int64_t reasoning_tokens = 0;
  bool cut_in_reasoning = false;
};

/// The answer ends with the content of the records before this one.
struct InterruptedRecord {
  Status cause;  // ok if unknown, as after a crash
};

struct AttachedRecord {
  uint64_t epoch = 0;
};

/// Per-session data for the server's start and for lists.
struct SessionSummary {
  std::string owner;
  double created_at = 0, updated_at = 0;
  /// Number of the record that the following fields reflect; if it is not the last one, the session must be read. 0: no
  /// data, from an older version or while a turn runs.
  uint64_t seq = 0;
  Metadata metadata;
  WindowOverrides window;
  int64_t items = 0, tokens = 0, position = 0, pinned = 0, tokens_evicted = 0;
  uint64_t epoch = 0;
  double used_s = 0;  // by uptime; 0 from older versions
};

/// True if token ids stored under the codec name `stored` equal those of `ours`. A name holds the vocabulary and, after
/// a point, the chat template; older names end before the point and match any template.
bool SameCodec(std::string_view stored, std::string_view ours);

JournalRecord Encode(const CreatedRecord& record);
JournalRecord EncodeMetadata(const Metadata& metadata);
JournalRecord Encode(const TimelineRecord& record);
JournalRecord Encode(const TurnRecord& record);
JournalRecord EncodeStarted(const CacheReport& report);
JournalRecord Encode(const TokensRecord& record, bool logprobs);
JournalRecord Encode(const EndRecord& record);
JournalRecord Encode(const AttachedRecord& record);
JournalRecord EncodeAbandoned();
JournalRecord Encode(const InterruptedRecord& record);
/// `name`: the id of the response (kForgotten) or the share link (kUnshared), or the name of the codec (kRetokenised)
/// or the model (kModel).
JournalRecord EncodeName(RecordType type, const std::string& name);
std::string Encode(const SessionSummary& summary);
/// Adds the summary and the label to an entry.
void SetSummary(const SessionSummary& summary, JournalEntry* entry);

Result<CreatedRecord> DecodeCreated(std::string_view bytes);
Result<Metadata> DecodeMetadata(std::string_view bytes);
Result<TimelineRecord> DecodeTimeline(std::string_view bytes);
/// As above, for untrusted bytes.
/// ERRORS: kInvalidArgument, before memory is allocated, above kMaxTimelineItems items (array_above_max_length) or
/// `max_tokens` tokens (context_length_exceeded).
Result<TimelineRecord> DecodeImportedTimeline(std::string_view bytes, int64_t max_tokens);
Result<TurnRecord> DecodeTurn(std::string_view bytes);
Result<CacheReport> DecodeStarted(std::string_view bytes);
Result<TokensRecord> DecodeTokens(std::string_view bytes);
Result<EndRecord> DecodeEnd(std::string_view bytes);
Result<InterruptedRecord> DecodeInterrupted(std::string_view bytes);
Result<AttachedRecord> DecodeAttached(std::string_view bytes);
/// Decodes the name of EncodeName.
Result<std::string> DecodeName(std::string_view bytes);
Result<SessionSummary> DecodeSummary(std::string_view bytes);

}  // namespace ringside
