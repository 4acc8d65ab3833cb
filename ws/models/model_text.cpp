#include "ws/models/model_text.h"

#include <algorithm>

#include "base/clock.h"
#include "base/log.h"
#include "engine/model/model.h"
#include "engine/model/model_facts.h"
#include "engine/sampling/sampling_defaults.h"
#include "ws/app/app_template.h"

namespace ringside {
namespace {

constexpr int64_t kMaxTokens = 32768;  // default limit of a prompt and of an answer

Result<ChatTemplate> LoadTemplate(const ServerConfig& config, const ModelText& text) {
  ChatTemplate::Facts facts;
  if (text.bos) facts.bos = text.tokenizer->TokenName(*text.bos);
  if (text.eos) facts.eos = text.tokenizer->TokenName(*text.eos);
  if (text.text_begin) facts.text_begin = text.tokenizer->TokenName(*text.text_begin);
  const bool encoder = text.spec.encoder_layers > 0;
  Result<ChatTemplate> chat = ChooseTemplate(config.chat_template, text.chat_template, encoder, facts);
  if (!chat.ok()) return InvalidArgument("--chat-template: " + chat.status().message());
  LogInfo("chat template: {}", chat->name());
  if (!encoder && config.chat_template.empty() && text.chat_template.empty()) {
    LogWarning(
        "chat template: the model has none (a base model?): chats are a plain transcript ('plain'); choose another "
        "with --chat-template");
  }
  if (!chat->caveat().empty()) LogWarning("chat template: {}", chat->caveat());
  return chat;
}

Result<SamplingParams> LoadSampling(const ServerConfig& config) {
  ASSIGN_OR_RETURN(SamplingParams sampling, ReadSamplingDefaults(config.model));
  sampling.temperature = config.temperature.value_or(sampling.temperature);
  sampling.top_p = config.top_p.value_or(sampling.top_p);
  LogInfo("sampling: temperature {}, top_p {}, top_k {}, min_p {}, repetition_penalty {}", sampling.temperature,
          sampling.top_p, sampling.top_k, sampling.min_p, sampling.repetition_penalty);
  return sampling;
}

/// Fills in the rest of a text with name, spec and template.
Result<ModelText> WithTokenizer(const ServerConfig& config, ModelText text, const TokenizerData& data) {
  if (data.tokens.empty()) {
    return InvalidArgument(config.model +
                           " has no tokenizer: put tokenizer.json beside the weights (or tekken.json, or "
                           "SentencePiece's tokenizer.model), or vocab.json and merges.txt where these are of "
                           "FasterTransformer, Megatron-LM or NeMo");
  }
  text.bos = data.bos;
  text.eos = data.eos;
  text.text_begin = data.text_begin;
  text.end_of_turn = data.end_of_turn;
  ASSIGN_OR_RETURN(text.tokenizer, MakeTokenizer(data));
  ASSIGN_OR_RETURN(ChatTemplate chat, LoadTemplate(config, text));
  text.chat = std::make_shared<const ChatTemplate>(std::move(chat));
  ASSIGN_OR_RETURN(text.sampling, LoadSampling(config));
  return text;
}

}  // namespace

Result<ModelText> TextOf(const ServerConfig& config, std::string name, const Model& model) {
  ModelText text{.name = std::move(name), .spec = model.spec(), .chat_template = model.chat_template()};
  if (const ImageFormat* format = model.image_format()) text.images = std::make_shared<const ImageFormat>(*format);
  return WithTokenizer(config, std::move(text), model.tokenizer_data());
}

Result<ModelText> ReadModelText(const ServerConfig& config, std::string name) {
  ASSIGN_OR_RETURN(const ModelFiles files, OpenModelFiles(config.model));
  ModelText text{.name = std::move(name), .spec = files.plan.spec, .chat_template = files.chat_template};
  if (files.vision != nullptr) text.images = std::make_shared<const ImageFormat>(files.vision->format);
  return WithTokenizer(config, std::move(text), files.tokenizer);
}

ServerFacts FactsOf(const ServerConfig& config, const ModelText& text, int64_t slots) {
  ServerFacts facts{.version = RINGSIDE_VERSION, .created = SystemClock::Instance().WallSeconds(), .slots = slots};
  if (config.chat_template.empty()) facts.chat_template = text.chat_template;
  if (text.bos) facts.bos = text.tokenizer->TokenName(*text.bos);
  if (text.eos) facts.eos = text.tokenizer->TokenName(*text.eos);
  return facts;
}

SessionTableOptions ModelOptions(const ServerConfig& config, const ModelText& text, const EngineOptions& engine) {
  SessionTableOptions options;
  options.model_name = text.name;
  options.embedding_size = ShapeOf(text.spec).hidden;
  options.vocab = ShapeOf(text.spec).vocab;
  options.session_len = engine.session_len;
  options.memory_len = engine.memory_len;
  options.pinned_max = engine.pinned_max;
  if (text.spec.encoder_layers > 0) {
    options.encoder = {*text.eos, static_cast<TokenId>(text.spec.answer_start)};
  }
  options.eviction = config.eviction;
  options.sampling = text.sampling;
  const int64_t longest = std::max(kMaxTokens, options.memory_len + options.pinned_max);
  options.max_output_tokens = config.max_output_tokens.value_or(-1);
  options.max_output_tokens_limit = config.max_output_tokens_limit.value_or(longest);
  options.max_input_tokens = config.max_input_tokens.value_or(longest);
  options.ends_repetition = !config.no_repetition_guard;
  options.turn_timeout_s = config.turn_timeout_s;
  options.aliases = config.model_aliases;
  options.strict_requests = config.strict_requests;
  options.end_of_turn = text.end_of_turn;
  options.text_begin = text.text_begin;
  options.images = text.images;
  options.durability = config.durability == StoreDurability::kTurn ? Durability::kTurn : Durability::kToken;
  options.session_ttl_s = config.session_ttl_s;
  options.max_turns_per_owner = config.max_turns_per_owner;
  options.max_sessions_per_owner = config.max_sessions_per_owner;
  options.max_bytes_per_owner = config.max_text_mb_per_owner << 20;
  options.max_chains_per_owner = config.max_chains_per_owner;
  options.max_stored_bytes_per_owner = config.max_stored_mb_per_owner << 20;
  options.max_tokens_per_owner = config.max_tokens_per_owner;
  options.max_detached_tokens = config.max_detached_tokens;
  options.accept_foreign_imports = config.accept_foreign_imports;
  return options;
}

}  // namespace ringside
