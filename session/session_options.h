// What an operator sets for all sessions of a server. Plain values.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/limits.h"
#include "base/sealed_box.h"
#include "cache/ring.h"
#include "engine/sampling/sampling.h"
#include "engine/text/tokenizer.h"
#include "session/chat/reasoning_spec.h"
#include "session/chat/timeline.h"

namespace ringside {

/// What a turn's tokens wait for.
enum class Durability {
  kToken,  // every delta is sent after its record is synced
  kTurn,   // deltas are sent at once; the answer's end is sent after everything is synced
};

/// What one owner may use; 0 = no limit.
struct OwnerLimits {
  int64_t turns = 0;              // running and waiting
  int64_t sessions = 0;           // conversations
  int64_t bytes = 0;              // like transcript_bytes
  int64_t tokens_per_minute = 0;  // computed: read or written
  int64_t chains = 0;             // the least recently used is deleted for one more
  int64_t stored_bytes = 0;       // in the journal
};

struct SessionTableOptions {
  std::string model_name;
  std::vector<std::string> adapters;  // of the model, by the numbers that turns call them by, from 1 on
  std::vector<std::string> aliases;   // further names of the model; a trailing '*' matches any end
  bool strict_requests = false;       // an unknown field or hint is refused, otherwise ignored and reported
  /// Not null: called for every field that an answer reports as ignored, on any thread: it must not block.
  std::function<void(const std::string& owner, const std::string& field)> on_ignored;
  int64_t session_len = 1 << 20;         // tokens of a session, counted exactly
  int64_t memory_len = 2048;             // tokens of the window; sessions may ask for less
  int64_t embedding_size = 0;            // numbers that the model makes of a text; 0 = it makes none
  int64_t pinned_max = 256;              // most pinned tokens
  std::optional<EncoderTokens> encoder;  // of a model that has one
  Eviction eviction = Eviction::kTurn;
  SamplingParams sampling;              // where a request says nothing
  int64_t max_output_tokens = -1;       // the same; -1 = the rest of the window (RoomForAnswer)
  bool ends_repetition = false;         // end an answer that has become a loop (RepetitionGuard)
  int64_t max_output_tokens_limit = 0;  // most that a request may ask for; 0 = no limit
  int64_t max_input_tokens = 0;         // of one turn's new input; 0 = no limit
  int64_t turn_timeout_s = 0;           // a turn ends after so long, waiting included; 0 = never
  std::vector<TokenId> end_of_turn;     // ids that end an answer
  std::optional<TokenId> text_begin;    // TokenizerData::text_begin
  // Properties of the chat template, set by the table.
  bool reasons = false;  // answers may begin with reasoning
  /// SettledReasoning::ignored. Any thread; may take tens of milliseconds. ERRORS: those of ChatTemplate::Settle and of
  /// RunLongWork.
  std::function<Result<std::vector<std::string>>(const ReasoningSpec&)> ignored_reasoning;
  /// Memory for what was said. Above it the oldest responses are forgotten, and chains with their last one; if the
  /// conversations alone need as much, whatever would add to them is refused (kOverloaded).
  int64_t transcript_bytes = limits::kMaxTranscriptBytes;
  Durability durability = Durability::kToken;
  int64_t session_ttl_s = 0;               // a session unused for so long is deleted; 0 = never
  int64_t max_turns_per_owner = 0;         // running and waiting; 0 = no limit
  int64_t max_sessions_per_owner = 0;      // conversations; 0 = no limit
  int64_t max_bytes_per_owner = 0;         // like transcript_bytes, of one owner; 0 = no limit
  int64_t max_chains_per_owner = 0;        // the least recently used is deleted for one more; 0 = no limit
  int64_t max_stored_bytes_per_owner = 0;  // in the journal; 0 = no limit
  int64_t max_tokens_per_owner = 0;        // computed in a minute; 0 = no limit
  /// Not null: what an owner has instead. On any thread, for every turn: it must not block.
  std::function<OwnerLimits(const std::string& owner, const OwnerLimits& usual)> limits_of;
  int64_t max_detached_tokens = 0;         // an answer that nobody hears ends after so many tokens; 0 = no limit
  SealKey export_key = SealKey::Random();  // seals exported conversations
  bool accept_foreign_imports = false;     // take in conversations that are sealed with another key, too

  /// The context length reported to clients, in tokens: the longest input that is accepted even if no more than
  /// the sink tokens are pinned.
  int64_t request_len() const;
  /// The longest answer of a request that gives no limit, in tokens.
  int64_t usual_answer() const;
  /// The number of an adapter; 0 for "", which is none. nullopt: there is none of this name.
  std::optional<int> NumberOfAdapter(std::string_view name) const;
  OwnerLimits LimitsOf(const std::string& owner) const {
    const OwnerLimits usual{max_turns_per_owner,  max_sessions_per_owner, max_bytes_per_owner,
                            max_tokens_per_owner, max_chains_per_owner,   max_stored_bytes_per_owner};
    return limits_of ? limits_of(owner, usual) : usual;
  }
};

}  // namespace ringside
