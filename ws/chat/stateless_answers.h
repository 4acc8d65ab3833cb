// Answers of one stateless request: started as turns of the session table, streamed or sent when all have ended,
// cancelled when the client leaves. No thread waits for them.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "base/limits.h"
#include "session/table/session_table.h"
#include "ws/chat/answer_writer.h"
#include "ws/content/served_model.h"
#include "ws/transport/http/http.h"
#include "ws/transport/run_on_worker.h"

namespace ringside {

inline constexpr int64_t kMaxChoices = 128;  // per request, over all prompts

/// Services for the handlers of these protocols.
struct ChatService {
  SessionTable& table;
  RetryAfter retry_after_ms;
  /// Runs a call of this client on a worker; an error if too many are queued.
  RunOnWorker run_on_worker;
  /// The server's models; null = the table's only one.
  ListServedModels models = nullptr;
  /// Loads and unloads them; null = the only model stays loaded.
  ChangeModel change_model = nullptr;
};

struct StatelessRequest {
  std::vector<TurnSpec> prompts;                              // at least one, each with its history
  size_t in_flight = limits::kMaxTurnsInFlightPerConnection;  // turns computed at the same time
  int64_t choices = 1;  // per prompt; their seeds are consecutive, starting with the prompt's
  bool stream = false;
  // This protocol's names for the session table's `input` and `max_output_tokens` in errors.
  std::string input_param = "messages", length_param = "max_tokens";
};

/// Starts to answer `asked`; an error of the first turn is returned at once.
/// THREAD: a worker.
HttpResponse AnswerStateless(const ChatService& service, const HttpRequest& asked, StatelessRequest request,
                             std::shared_ptr<const AnswerWriter> format);

}  // namespace ringside
