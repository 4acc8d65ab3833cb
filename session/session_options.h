// Settings of the operator for all sessions of a server. Plain values.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/limits.h"
#include "base/sealed_box.h"
#include "cache/ring.h"
#include "engine/sampling/sampling.h"
#include "engine/text/tokenizer.h"
#include "session/chat/templates/reasoning_spec.h"
#include "session/chat/timeline/timeline.h"

namespace ringside {

class ModelSource;
class PictureReader;

/// Durability required before tokens are sent.
enum class Durability {
  kToken,  // each delta is sent after its record is synced
  kTurn,   // deltas are sent at once, the end after everything is synced
};

/// Limits of one owner; 0 = no limit.
struct OwnerLimits {
  int64_t turns = 0;              // running and queued
  int64_t sessions = 0;           // conversations
  int64_t bytes = 0;              // as transcript_bytes
  int64_t tokens_per_minute = 0;  // computed tokens, prompt and output
  int64_t chains = 0;             // above it the least recently used is deleted
  int64_t stored_bytes = 0;       // in the journal
};

struct SessionTableOptions {
  std::string model_name;
  std::vector<std::string> adapters;  // adapters of the model; turns number them from 1
  std::vector<std::string> aliases;   // more names of the model; a trailing '*' matches any suffix
  /// Not null in a server with several models, whose options differ; these are of the model `model_name`.
  ModelSource* models = nullptr;
  bool strict_requests = false;  // refuse unknown fields and hints instead of ignoring and reporting them
  /// If not null, called for each field that an answer reports as ignored, on any thread; must not block.
  std::function<void(const std::string& owner, const std::string& field)> on_ignored;
  int64_t session_len = 1 << 20;         // exact number of tokens per session
  int64_t memory_len = 2048;             // window in tokens; sessions may request less
  int64_t embedding_size = 0;            // dimensions of an embedding; 0 = none
  int64_t pinned_max = 256;              // limit of pinned tokens
  std::optional<EncoderTokens> encoder;  // set for encoder-decoder models
  Eviction eviction = Eviction::kTurn;
  SamplingParams sampling;                    // request default
  int64_t max_output_tokens = -1;             // request default; -1 = the rest of the window (RoomForAnswer)
  bool ends_repetition = false;               // end answers that loop (RepetitionGuard)
  int64_t max_output_tokens_limit = 0;        // limit of a request's value; 0 = none
  int64_t max_input_tokens = 0;               // limit of one turn's new input; 0 = none
  int64_t turn_timeout_s = 0;                 // time limit of a turn, queueing included; 0 = none
  std::vector<TokenId> end_of_turn;           // token ids that end an answer
  std::optional<TokenId> text_begin;          // TokenizerData::text_begin
  const Tokenizer* tokenizer = nullptr;       // the model's, set by the table
  int64_t vocab = 0;                          // ids that the model may choose, if it has more than the tokenizer
  std::shared_ptr<const ImageFormat> images;  // of the model; null: it reads none
  std::shared_ptr<PictureReader> pictures;    // of the server; null: images are refused
  // Properties of the chat template, set by the table.
  bool reasons = false;  // answers may start with reasoning
  /// SettledReasoning::ignored; may take tens of milliseconds.
  /// THREAD: any.
  /// ERRORS: as ChatTemplate::Settle and RunLongWork.
  std::function<Result<std::vector<std::string>>(const ReasoningSpec&)> ignored_reasoning;
  /// Memory limit of all conversations' text. Above it the oldest responses are dropped, and a chain with its last
  /// response; if conversations alone reach it, requests that would add to them are refused (kOverloaded).
  int64_t transcript_bytes = limits::kMaxTranscriptBytes;
  Durability durability = Durability::kToken;
  int64_t session_ttl_s = 0;               // unused time after which a session is deleted; 0 = never
  int64_t max_turns_per_owner = 0;         // running and waiting; 0 = no limit
  int64_t max_sessions_per_owner = 0;      // conversations; 0 = no limit
  int64_t max_bytes_per_owner = 0;         // like transcript_bytes, of one owner; 0 = no limit
  int64_t max_chains_per_owner = 0;        // the least recently used is deleted for one more; 0 = no limit
  int64_t max_stored_bytes_per_owner = 0;  // in the journal; 0 = no limit
  int64_t max_tokens_per_owner = 0;        // computed in a minute; 0 = no limit
  /// If not null, returns an owner's own limits. Called for every turn on any thread; must not block.
  std::function<OwnerLimits(const std::string& owner, const OwnerLimits& usual)> limits_of;
  int64_t max_detached_tokens = 0;         // an answer without listeners ends after this number of tokens; 0 = no limit
  SealKey export_key = SealKey::Random();  // seals exported conversations
  bool accept_foreign_imports = false;     // accept conversations sealed with another key

  /// Context length reported to clients: tokens of the longest accepted input if only the sink tokens are pinned.
  int64_t request_len() const;
  /// Tokens of the longest answer to a request without a limit.
  int64_t usual_answer() const;
  /// Number of an adapter; 0 for "", which means none. nullopt: no adapter has this name.
  std::optional<int> NumberOfAdapter(std::string_view name) const;
  OwnerLimits LimitsOf(const std::string& owner) const {
    const OwnerLimits usual{max_turns_per_owner,  max_sessions_per_owner, max_bytes_per_owner,
                            max_tokens_per_owner, max_chains_per_owner,   max_stored_bytes_per_owner};
    return limits_of ? limits_of(owner, usual) : usual;
  }
};

}  // namespace ringside
