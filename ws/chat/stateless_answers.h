// The answers to one stateless request: begun as turns of the session table, told to the client as they come or when
// all have ended, cancelled when the client goes away. No thread waits for them.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "base/limits.h"
#include "session/table/session_table.h"
#include "ws/chat/answer_writer.h"
#include "ws/transport/http/http.h"
#include "ws/transport/run_on_worker.h"

namespace ringside {

inline constexpr int64_t kMaxChoices = 128;  // of one request, all prompts together

/// What the faces of this room need of the server.
struct ChatService {
  SessionTable& table;
  RetryAfter retry_after_ms;
  /// Runs a call of this client on a worker, soon; an error if too much waits.
  RunOnWorker run_on_worker;
};

struct StatelessRequest {
  std::vector<TurnSpec> prompts;                              // at least one; each carries its history
  size_t in_flight = limits::kMaxTurnsInFlightPerConnection;  // of them are computed at a time
  int64_t choices = 1;  // of each prompt. They differ by their seeds: the prompt's, and those behind it
  bool stream = false;
  // How the face calls what the session table's errors call input and max_output_tokens.
  std::string input_param = "messages", length_param = "max_tokens";
};

/// Begins to answer `asked`. An error of the first turn is the answer at once. On a worker.
HttpResponse AnswerStateless(const ChatService& service, const HttpRequest& asked, StatelessRequest request,
                             std::shared_ptr<const AnswerWriter> format);

}  // namespace ringside
