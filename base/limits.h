// Every limit of the server in one table. Nothing that a client can grow is without one.
#pragma once

#include <cstdint>

namespace ringside::limits {

// Engine
inline constexpr int64_t kEngineInboxMessages = 1024;
inline constexpr int64_t kMaxPrefillChunkTokens = 8192;  // rows of one sequence in one step
inline constexpr int64_t kMaxFullRingChunkTokens = 512;  // of them, where the ring is full
inline constexpr int64_t kMaxPinnedTokens = 1 << 14;     // upper bound of --pinned-max

// Caches on their way between the tiers
inline constexpr int64_t kBlobReserveBytes = 128 << 20;  // memory kept ready for the next copy out of a slot
inline constexpr int64_t kLeastWaitingSnapshotBytes = 256
                                                      << 20;  // may wait for the disk, however small --host-cache-mb

// A request
inline constexpr int64_t kMaxMessageBytes = 4 << 20;  // one WebSocket message or HTTP body
inline constexpr int64_t kMaxJsonDepth = 64;
inline constexpr int64_t kMaxJsonValues = 1 << 18;  // each takes 40 bytes, however short it was written
inline constexpr int64_t kMaxInputItems = 4096;
inline constexpr int64_t kMaxStopStrings = 16;
inline constexpr int64_t kMaxStopStringBytes = 256;
inline constexpr int64_t kMaxLogitBiasEntries = 1024;
inline constexpr int64_t kMaxBadWords = 256;
inline constexpr int64_t kMaxTools = 128;
inline constexpr int64_t kMaxCallIdBytes = 256;
inline constexpr int64_t kMaxTopLogprobs = 20;
inline constexpr int64_t kMaxAdapterNameBytes = 64;
inline constexpr int64_t kMaxBeamWidth = 16;
inline constexpr int64_t kMaxBeamTokens = 1024;  // of an answer that is searched for with beams
inline constexpr int64_t kMaxBestTokens = 32;    // of one row of logits: what a beam may go on with, or top_logprobs
inline constexpr int64_t kMaxMetadataEntries = 16;
inline constexpr int64_t kMaxMetadataKeyBytes = 64;
inline constexpr int64_t kMaxMetadataValueBytes = 512;

// A grammar that an answer must follow
inline constexpr int64_t kMaxGrammarTextBytes = 256 << 10;   // schema, regular expression or GBNF
inline constexpr int64_t kMaxGrammarStates = 1 << 17;        // of all rules, repetitions written out
inline constexpr int64_t kMaxGrammarSteps = 24'000'000;      // of compiling a request's grammars; up to 0.5 s
inline constexpr int64_t kMaxGrammarBuildBytes = 96 << 20;   // held at once while they are compiled
inline constexpr int64_t kMaxGrammarRepeats = 1 << 16;       // of one quantifier
inline constexpr int64_t kMaxGrammarWorkAtOnce = 1 << 18;    // places looked at for one mask; about 10 ms
inline constexpr int64_t kMaxGrammarWorkPerToken = 1 << 14;  // refill of that for each token
inline constexpr int64_t kMaxGrammarWorkToResume = 1 << 24;  // of reading a cut answer again; about 0.5 s, on a worker
inline constexpr int64_t kMaxGrammarTableBytes = 32 << 20;   // what one grammar remembers of its parses
inline constexpr int64_t kLeastGrammarTableBytes = 1 << 20;  // and when all together remember too much
inline constexpr int64_t kMaxGrammarCacheBytes = 256 << 20;  // of all compiled ones, kept or in use
inline constexpr int64_t kMaxSchemaDepth = kMaxJsonDepth;

// A connection
inline constexpr int64_t kMaxConnections = 16384;
inline constexpr int64_t kMaxLanesPerConnection = 32;
inline constexpr int64_t kMaxTurnsInFlightPerConnection = 16;
inline constexpr int64_t kOutboxSoftBytes = 256 << 10;  // above: deltas are merged
inline constexpr int64_t kOutboxHardBytes = 4 << 20;    // above: the socket is closed with 1013
inline constexpr int64_t kMaxQueuedCreatesPerConnection = 256;
inline constexpr int64_t kMaxQueuedBytesPerConnection = 4 * kMaxMessageBytes;
inline constexpr int64_t kMaxStreamIdBytes = 256;
inline constexpr int64_t kMaxResumedSessionsPerConnection = 64;
inline constexpr int64_t kMaxReplayedEvents = 1 << 16;  // more missed events than this are told as a snapshot
inline constexpr int64_t kHandshakeSeconds = 30;
inline constexpr int64_t kIdlePingSeconds = 30;

// Memory of what was said
inline constexpr int64_t kMaxSessions = 1 << 20;
inline constexpr int64_t kMaxResponses = kMaxSessions;
inline constexpr int64_t kMaxResponsesPerSession = 4096;
inline constexpr int64_t kRepeatSeconds = 600;  // a client gives up that late, and then sends its request again
inline constexpr int64_t kMaxRequestsRemembered = 16384;          // when they were sent
inline constexpr int64_t kMaxItemsAddedAtOnce = 20;               // by one HTTP request, as in OpenAI's API
inline constexpr int64_t kMaxForeignTokens = 1 << 22;             // of an import in another vocabulary's ids
inline constexpr int64_t kMaxTranscriptBytes = int64_t{4} << 30;  // of all sessions: text, ids, responses
inline constexpr int64_t kMaxHistoriesPerOwner = 1024;            // timelines that stateless requests left
inline constexpr int64_t kMaxHistoryBytes = 256 << 20;            // of the index that finds them
inline constexpr int64_t kHistoryIdleSeconds = 3600;              // unused for so long they go
inline constexpr int64_t kMaxJournalRecordBytes = 16 << 20;
inline constexpr int64_t kJournalQueueEntries = 8192;
inline constexpr int64_t kJournalQueueBytes = 64 << 20;

}  // namespace ringside::limits
