// Parses a server event from JSON text into one plain struct. Parsing is lenient: a missing or mistyped field keeps its
// default, an unknown event is kOther. Pure functions.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "clients/wire/client_event.h"

namespace ringside::client {

/// Cost report of a finished response.
struct TurnReport {
  std::string source;  // "new", "slot", "host", "disk", "recomputed"; "" = unknown
  int64_t input_tokens = 0, cached_tokens = 0, output_tokens = 0;
  int64_t reasoning_tokens = 0;  // part of the output
  int64_t tokens_reused = 0, tokens_computed = 0, tokens_evicted = 0, messages_evicted = 0;
  int64_t position = 0;
  double restore_ms = 0;
  std::optional<double> ttft_ms, tokens_per_s;
};

struct ServerEvent {
  enum class Kind {
    kOther,
    kCreated,     // response_id
    kReasoning,   // text: a piece of the reasoning, which precedes the answer
    kDelta,       // text
    kFinished,    // response.completed, .incomplete or .failed: status, text (whole answer), reasoning, report, error
    kError,       // error
    kResumed,     // session, session_present, epoch, next_seq, replay, response_id (the running one), history
    kSnapshot,    // response_id, text (the answer so far), reasoning, next_seq
    kRewound,     // session, items
    kForked,      // session (the new one)
    kVerbFailed,  // verb, error
    kQueued,      // response_id, position (1 = next)
    kEvicted,     // messages and tokens in report
    kDraining,    // the server is shutting down
  };
  enum class Replay { kNone, kEvents, kSnapshot };
  struct Error {
    std::string code, message, param;
    int64_t retry_after_ms = 0;  // 0 = none
  };

  Kind kind = Kind::kOther;
  std::string type;             // as on the wire
  std::optional<uint64_t> seq;  // session-wide number
  std::string response_id;
  std::string text, reasoning;
  std::string status;             // "completed", "incomplete", "cancelled", "failed"
  std::string incomplete_reason;  // "max_output_tokens", "interrupted" (by a server failure), ...
  TurnReport report;
  Error error;
  std::string session;
  bool session_present = false;
  std::optional<uint64_t> epoch, next_seq;
  Replay replay = Replay::kNone;
  std::optional<HistoryPosition> history;  // kFinished, kResumed: current position
  int64_t items = 0, position = 0;
  std::string verb;

  /// kFinished: the server failed before or during the answer.
  bool failed() const { return status == "failed" || incomplete_reason == "interrupted"; }
};

/// Returns nothing unless `message` is a JSON object with a "type".
std::optional<ServerEvent> ParseServerEvent(std::string_view message);

/// Parses a response object from HTTP ("/responses/{id}") into the same fields: kind is kFinished, or kOther while the
/// response is running. Returns nothing unless it is a JSON object.
std::optional<ServerEvent> ParseResponse(std::string_view body);

}  // namespace ringside::client
