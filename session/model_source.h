// The models of a server that has several, as the sessions see them: names, tokenizers and templates. Whether their
// weights are loaded is unknown here: the TurnEngine takes turns for every model. Implemented by the server's
// ModelPool and by tests.
// THREAD: any.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "base/status.h"
#include "session/session_options.h"

namespace ringside {

class ChatTemplate;
class Tokenizer;

/// The reason (Status::reason) of a turn's error whose model could not be loaded.
inline constexpr char kModelLoadFailed[] = "model_load_failed";

/// The text side of a model.
struct SessionModel {
  SessionTableOptions options;  // model_name: its listed name
  std::shared_ptr<const Tokenizer> tokenizer;
  std::shared_ptr<const ChatTemplate> chat;
};

class ModelSource {
 public:
  virtual ~ModelSource() = default;
  /// Returns the listed name that a request means: a name, an alias or, for "", the default model. Does not block.
  /// ERRORS: kNotFound (model_not_found); kInvalidArgument (model_unsupported) with the reason for a listed model that
  /// cannot be loaded.
  virtual Result<std::string> Resolve(std::string_view asked, std::string_view param) const = 0;
  /// Reads a listed model's text, without its weights. Blocks for the time of reading it.
  /// ERRORS: as Resolve; kUnavailable (kModelLoadFailed).
  virtual Result<SessionModel> Open(const std::string& name) = 0;
};

}  // namespace ringside
