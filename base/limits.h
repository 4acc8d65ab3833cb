// Every limit of the server in one table. Everything that a client can grow has one.
#pragma once

#include <cstdint>

namespace ringside::limits {

// Engine
inline constexpr int64_t kEngineInboxMessages = 1024;
inline constexpr int64_t kMaxPrefillChunkTokens = 8192;  // rows of one sequence in one step
inline constexpr int64_t kMaxFullRingChunkTokens = 512;  // the same limit once the ring is full
inline constexpr int64_t kMaxPinnedTokens = 1 << 14;     // upper bound of --pinned-max

// Snapshots in transit between the tiers
inline constexpr int64_t kBlobReserveBytes = 128 << 20;         // warm memory kept for the next copy out of a slot
inline constexpr int64_t kMinWaitingSnapshotBytes = 256 << 20;  // floor of the bytes that wait for the disk

// A request
inline constexpr int64_t kMaxMessageBytes = 4 << 20;  // one WebSocket message or HTTP body, without its images
inline constexpr int64_t kMaxJsonBytes = 256 << 20;   // of any text; a request has kMaxMessageBytes
inline constexpr int64_t kMaxJsonDepth = 64;
inline constexpr int64_t kMaxJsonValues = 1 << 18;       // each takes 40 bytes in memory, however short its text
inline constexpr int64_t kMaxLargeJsonValues = 1 << 24;  // of a model's files and a server's answers
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
inline constexpr int64_t kMaxBeamTokens = 1024;  // answer length under beam search
inline constexpr int64_t kMaxBestTokens = 32;    // candidates per row of logits (beams, top_logprobs)
inline constexpr int64_t kMaxMetadataEntries = 16;
inline constexpr int64_t kMaxMetadataKeyBytes = 64;
inline constexpr int64_t kMaxMetadataValueBytes = 512;

// Images of messages
inline constexpr int64_t kMaxImagesPerRequest = 64;
inline constexpr int64_t kMaxImagePixels = 32 << 20;         // of one image: 96 MiB decoded
inline constexpr int64_t kMaxImageFileBytes = 20 << 20;      // of one file
inline constexpr int64_t kImageRequestBytes = 32 << 20;      // default of --max-request-mb: a file in base64, and text
inline constexpr int64_t kMaxImageRequestBytes = 64 << 20;   // upper bound of --max-request-mb
inline constexpr int64_t kMaxTurnImages = 256;               // of a conversation, given with a turn
inline constexpr int64_t kMaxTurnPictureBytes = 1 << 30;     // decoded images of a conversation, while a turn runs
inline constexpr int64_t kPictureCacheBytes = 256 << 20;     // decoded images kept between turns
inline constexpr int64_t kMaxImageDecoders = 2;              // decoding processes at once, each of another owner
inline constexpr int64_t kMaxImageSecondsPerRequest = 30;    // until its last image is decoded
inline constexpr int64_t kImageDecoderBytes = 512 << 20;     // address space of one
inline constexpr int64_t kImageDecoderSeconds = 10;          // of one, by the clock
inline constexpr int64_t kImageDecoderPatienceSeconds = 10;  // of an image that waits for its process

// A grammar that constrains an answer
inline constexpr int kMaxGroupDepth = 100;                   // of GBNF and regular expressions
inline constexpr int64_t kMaxQuotedRuleBytes = 256;          // of a rule's name in a message
inline constexpr int64_t kMaxGrammarTextBytes = 256 << 10;   // JSON schema, regular expression or GBNF
inline constexpr int64_t kMaxGrammarStates = 1 << 17;        // over all rules, repetitions expanded
inline constexpr int64_t kMaxGrammarSteps = 24'000'000;      // compile steps for a request's grammars; up to 0.5 s
inline constexpr int64_t kMaxGrammarBuildBytes = 96 << 20;   // peak memory of a compilation
inline constexpr int64_t kMaxGrammarRepeats = 1 << 16;       // repetitions of one quantifier
inline constexpr int64_t kMaxGrammarWorkAtOnce = 1 << 18;    // parser states visited for one mask; about 10 ms
inline constexpr int64_t kMaxGrammarWorkPerToken = 1 << 14;  // refill of that budget for each token
inline constexpr int64_t kMaxGrammarWorkToResume = 1 << 24;  // budget to parse a cut answer again; about 0.5 s
inline constexpr int64_t kMaxGrammarTableBytes = 32 << 20;   // parse tables of one grammar
inline constexpr int64_t kMinGrammarTableBytes = 1 << 20;    // and under memory pressure from all grammars together
inline constexpr int64_t kMaxGrammarCacheBytes = 256 << 20;  // all compiled grammars, cached or in use
inline constexpr int64_t kMaxSchemaDepth = kMaxJsonDepth;

// A connection
inline constexpr int64_t kMaxConnections = 16384;
inline constexpr int64_t kMaxLanesPerConnection = 32;
inline constexpr int64_t kMaxTurnsInFlightPerConnection = 16;
inline constexpr int64_t kOutboxSoftBytes = 256 << 10;  // above this, deltas are merged
inline constexpr int64_t kOutboxHardBytes = 4 << 20;    // above this, the socket is closed with 1013
inline constexpr int64_t kMaxQueuedCreatesPerConnection = 256;
inline constexpr int64_t kMaxQueuedBytesPerConnection = 4 * kMaxMessageBytes;  // or one larger message
inline constexpr int64_t kMaxStreamIdBytes = 256;
inline constexpr int64_t kMaxResumedSessionsPerConnection = 64;
inline constexpr int64_t kMaxReplayedEvents = 1 << 16;  // a client that missed more events gets a snapshot instead
inline constexpr int64_t kHandshakeSeconds = 30;
inline constexpr int64_t kIdlePingSeconds = 30;

// Conversation state
inline constexpr int64_t kMaxSessions = 1 << 20;
inline constexpr int64_t kMaxResponses = kMaxSessions;
inline constexpr int64_t kMaxResponsesPerSession = 4096;
inline constexpr int64_t kRepeatSeconds = 600;  // a client times out after this time and then repeats its request
inline constexpr int64_t kMaxRequestsRemembered = 16384;          // request ids kept to detect repeats
inline constexpr int64_t kMaxItemsAddedAtOnce = 20;               // items of one HTTP request, as in OpenAI's API
inline constexpr int64_t kMaxForeignTokens = 1 << 22;             // an import in another vocabulary's ids
inline constexpr int64_t kMaxTranscriptBytes = int64_t{4} << 30;  // text, ids and responses of all sessions
inline constexpr int64_t kMaxHistoriesPerOwner = 1024;            // timelines kept after stateless requests
inline constexpr int64_t kMaxSummaries = 16, kMaxSummariesPerOwner = 4;  // concurrent side turns; each blocks a worker
inline constexpr int64_t kMaxHistoryBytes = 256 << 20;                   // the index over these timelines
inline constexpr int64_t kHistoryIdleSeconds = 3600;  // an unused timeline is dropped after this time
inline constexpr int64_t kMaxJournalRecordBytes = kMaxImageFileBytes + (64 << 10);  // an image file, and its digest
inline constexpr int64_t kJournalQueueEntries = 8192;
inline constexpr int64_t kJournalQueueBytes = 64 << 20;

}  // namespace ringside::limits
