// The text side of a model: tokenizer, chat template, sampling defaults, and the settings of its sessions. Read from
// the model's files without its weights, or from a loaded model. THREAD: any.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/status.h"
#include "engine/engine_options.h"
#include "engine/families/model_spec.h"
#include "engine/sampling/sampling.h"
#include "engine/text/tokenizer.h"
#include "engine/vision/image_format.h"
#include "session/chat/templates/chat_template.h"
#include "session/session_options.h"
#include "ws/chat/server_facts.h"
#include "ws/config/config.h"

namespace ringside {

class Model;

struct ModelText {
  std::string name;  // for clients
  ModelSpec spec;
  std::string chat_template;  // the model's own, Jinja; "" = none
  std::optional<TokenId> bos, eos, text_begin;
  std::vector<TokenId> end_of_turn;
  std::shared_ptr<const Tokenizer> tokenizer;
  std::shared_ptr<const ChatTemplate> chat;
  SamplingParams sampling;                    // request defaults
  std::shared_ptr<const ImageFormat> images;  // null: it reads none
};

/// Logs each setting.
/// ERRORS: kInvalidArgument, naming the files or the setting.
Result<ModelText> TextOf(const ServerConfig& config, std::string name, const Model& model);
/// As above, from the files of `config.model`.
Result<ModelText> ReadModelText(const ServerConfig& config, std::string name);

/// Facts about the server and its only or default model that clients can read.
ServerFacts FactsOf(const ServerConfig& config, const ModelText& text, int64_t slots);
/// Settings of the sessions of a model in an engine with these options, without those that are common to all models.
SessionTableOptions ModelOptions(const ServerConfig& config, const ModelText& text, const EngineOptions& engine);

}  // namespace ringside
