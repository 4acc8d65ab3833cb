// Text settings from the model's files and the flags: tokenizer, chat template, sampling defaults. Each is logged.
#pragma once

#include <memory>

#include "base/status.h"
#include "engine/model/model.h"
#include "engine/sampling/sampling_defaults.h"
#include "session/chat/templates/chat_template.h"
#include "ws/chat/server_facts.h"
#include "ws/config/config.h"

namespace ringside {

/// ERRORS: kInvalidArgument, naming the files, for a model without a tokenizer.
Result<std::unique_ptr<Tokenizer>> LoadTokenizer(const ServerConfig& config, const Model& model);
/// See ChooseTemplate.
Result<ChatTemplate> LoadTemplate(const ServerConfig& config, const Model& model, const Tokenizer& tokenizer);
/// Facts about the server and its model that clients can read.
ServerFacts FactsOf(const ServerConfig& config, const Model& model, const Tokenizer& tokenizer, int64_t slots);
/// The model's recommended sampling, overridden by --temperature and --top-p.
Result<SamplingParams> LoadSampling(const ServerConfig& config);

}  // namespace ringside
