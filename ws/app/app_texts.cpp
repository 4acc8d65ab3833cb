#include "ws/app/app_texts.h"

#include "base/clock.h"
#include "base/log.h"
#include "ws/app/app_template.h"

namespace ringside {

Result<std::unique_ptr<Tokenizer>> LoadTokenizer(const ServerConfig& config, const Model& model) {
  const TokenizerData& data = model.tokenizer_data();
  if (!data.tokens.empty()) return MakeTokenizer(data);
  return InvalidArgument(
      config.model +
      " has no tokenizer: put tokenizer.json beside the weights (or tekken.json, or SentencePiece's tokenizer.model), "
      "or vocab.json and merges.txt where these are of FasterTransformer, Megatron-LM or NeMo");
}

Result<ChatTemplate> LoadTemplate(const ServerConfig& config, const Model& model, const Tokenizer& tokenizer) {
  const TokenizerData& data = model.tokenizer_data();
  ChatTemplate::Facts facts;
  if (data.bos) facts.bos = tokenizer.TokenName(*data.bos);
  if (data.eos) facts.eos = tokenizer.TokenName(*data.eos);
  if (data.text_begin) facts.text_begin = tokenizer.TokenName(*data.text_begin);
  const bool encoder = model.spec().encoder_layers > 0;
  Result<ChatTemplate> chat = ChooseTemplate(config.chat_template, model.chat_template(), encoder, facts);
  if (!chat.ok()) return InvalidArgument("--chat-template: " + chat.status().message());
  LogInfo("chat template: {}", chat->name());
  if (!encoder && config.chat_template.empty() && model.chat_template().empty()) {
    LogWarning(
        "chat template: the model has none (a base model?): chats are a plain transcript ('plain'); choose another "
        "with --chat-template");
  }
  if (!chat->caveat().empty()) LogWarning("chat template: {}", chat->caveat());
  return chat;
}

ServerFacts FactsOf(const ServerConfig& config, const Model& model, const Tokenizer& tokenizer, int64_t slots) {
  const TokenizerData& data = model.tokenizer_data();
  ServerFacts facts{.version = RINGSIDE_VERSION, .created = SystemClock::Instance().WallSeconds(), .slots = slots};
  if (config.chat_template.empty()) facts.chat_template = model.chat_template();
  if (data.bos) facts.bos = tokenizer.TokenName(*data.bos);
  if (data.eos) facts.eos = tokenizer.TokenName(*data.eos);
  return facts;
}

Result<SamplingParams> LoadSampling(const ServerConfig& config) {
  ASSIGN_OR_RETURN(SamplingParams sampling, ReadSamplingDefaults(config.model));
  sampling.temperature = config.temperature.value_or(sampling.temperature);
  sampling.top_p = config.top_p.value_or(sampling.top_p);
  LogInfo("sampling: temperature {}, top_p {}, top_k {}, min_p {}, repetition_penalty {}", sampling.temperature,
          sampling.top_p, sampling.top_k, sampling.min_p, sampling.repetition_penalty);
  return sampling;
}

}  // namespace ringside
