// The models of a table, each with the context of its sessions, made when a request first names the model and kept.
// Owned by the SessionTable. THREAD: any.
#pragma once

#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <unordered_map>

#include "base/status.h"
#include "session/chat/templates/chat_template.h"
#include "session/session_context.h"

namespace ringside {

/// The context of a table's model; `shared`: of the table.
std::shared_ptr<const SessionContext> MakeContext(SessionTableOptions options, const Tokenizer& tokenizer,
                                                  const ChatTemplate& chat, TurnEngine& engine, Journal* journal,
                                                  const Clock& clock, std::shared_ptr<SharedCounters> shared);

class OpenModels {
 public:
  /// `first`: of the only or the default model.
  explicit OpenModels(std::shared_ptr<const SessionContext> first) : first_(std::move(first)) {}

  /// The context of the model that a request means by `asked`. May read the model's text (DiskWait).
  /// ERRORS: as ModelSource.
  Result<std::shared_ptr<const SessionContext>> Open(std::string_view asked);
  /// The context of the model with this name if its text was read; otherwise the first one.
  std::shared_ptr<const SessionContext> Known(const std::string& model) const;
  /// The context for a turn. `own`: the model that its session began with, `asked`: the request's; "" = none.
  /// ERRORS: as Open; kInvalidArgument (model_mismatch).
  Result<std::shared_ptr<const SessionContext>> Choose(const std::string& own, const std::string& asked);

 private:
  const std::shared_ptr<const SessionContext> first_;
  std::mutex opening_;  // one thread at a time reads a text
  mutable std::mutex mutex_;
  std::unordered_map<std::string, std::shared_ptr<const SessionContext>> contexts_;  // by name
};

}  // namespace ringside
