#include "session/table/open_models.h"

#include <utility>

#include "base/worker_pool.h"
#include "engine/grammar/grammar_cache.h"
#include "session/chat/templates/reasoning_settings.h"
#include "session/ids.h"
#include "session/model_source.h"
#include "session/session.h"

namespace ringside {
namespace {

/// Two templates are equal if they render these messages equally.
std::string NameTemplate(const ChatTemplate& chat) {
  if (chat.renders_whole()) return HashedId("", chat.source());
  const std::vector<ChatMessage> talk = {{ChatRole::kSystem, " system "},
                                         {ChatRole::kUser, " user "},
                                         {ChatRole::kAssistant, "<think> thought </think> answer "},
                                         {ChatRole::kSystem, " later system "},
                                         {ChatRole::kUser, " user "}};
  std::string all = chat.Render(talk, TimelineEnd::kNothing, true).Text();
  all += '\0' + chat.Render({&talk[1], 1}, TimelineEnd::kNothing, true).Text();
  for (const TimelineEnd end : {TimelineEnd::kAnswerOpen, TimelineEnd::kAnswerEnded}) {
    all += '\0' + chat.Render({&talk[1], 1}, end, true).Text();
  }
  if (chat.renders_whole(/*with_tools=*/true)) {
    all += '\0' + chat.source();
  } else if (chat.tool_syntax() != ToolSyntaxName::kHermes) {
    all += '\0' + chat.Render({&talk[1], 1}, TimelineEnd::kNothing, true, "{\"tool\": []}").Text();
  }
  return HashedId("", all);
}

/// Names the codec: the vocabulary with the template's family, and the template.
std::string NameCodec(const Tokenizer& tokenizer, const ChatTemplate& chat) {
  std::string all = chat.name();
  for (TokenId id = 0; id < tokenizer.vocab_size(); ++id) {
    all.push_back('\0');
    all += tokenizer.TokenName(id);
  }
  return HashedId("", all) + '.' + NameTemplate(chat);
}

/// The images' tokens of a model that reads them: an extension of the codec's name without them.
std::string NameImages(const Codec& codec) {
  if (codec.images == nullptr) return "";
  constexpr int64_t kWidth = 320, kHeight = 240;
  std::string all = codec.chat.image_markup() + '\0' + std::to_string(codec.images->placeholder());
  const auto tokens = codec.images->Tokens(kWidth, kHeight, {});
  all += codec.images->text_around();
  if (!tokens.ok()) return HashedId(".", all);
  for (const TokenId id : *tokens) all += '\0' + std::to_string(id);
  return HashedId(".", all);
}

void SetReasoning(const ChatTemplate& chat, SessionTableOptions* options) {
  const auto settle = [&chat, encodes = options->encoder.has_value()](const ReasoningSpec& spec) {
    return encodes ? ReasoningSettings(nullptr, "").Settle(spec, chat) : chat.Settle(spec);
  };
  const Result<SettledReasoning> usual = settle({});
  options->reasons = usual.ok() && usual->channels != nullptr;
  options->ignored_reasoning = [settle](const ReasoningSpec& spec) -> Result<std::vector<std::string>> {
    Result<SettledReasoning> settled = SettledReasoning();
    RETURN_IF_ERROR(RunLongWork([&] { settled = settle(spec); }));
    if (!settled.ok()) return settled.status();
    return std::move(settled->ignored);
  };
}

}  // namespace

std::shared_ptr<const SessionContext> MakeContext(SessionTableOptions options, const Tokenizer& tokenizer,
                                                  const ChatTemplate& chat, TurnEngine& engine, Journal* journal,
                                                  const Clock& clock, std::shared_ptr<SharedCounters> shared) {
  const Codec codec{.tokenizer = tokenizer,
                    .chat = chat,
                    .pinned_max = options.pinned_max,
                    .encoder = options.encoder,
                    .images = options.images.get()};
  SetReasoning(chat, &options);
  options.tokenizer = &tokenizer;
  return std::make_shared<SessionContext>(SessionContext{.options = std::move(options),
                                                         .codec = codec,
                                                         .codec_name = NameCodec(tokenizer, chat) + NameImages(codec),
                                                         .clock = clock,
                                                         .journal = journal,
                                                         .engine = engine,
                                                         .grammars = std::make_shared<GrammarCache>(tokenizer),
                                                         .shared = std::move(shared)});
}

namespace {

/// A context of another model that shares the queues and counters of `base`.
std::shared_ptr<const SessionContext> WithModel(const SessionContext& base, SessionModel model) {
  auto made = std::make_shared<SessionContext>(*MakeContext(std::move(model.options), *model.tokenizer, *model.chat,
                                                            base.engine, base.journal, base.clock, base.shared));
  made->text = {model.tokenizer, model.chat};
  made->options.models = base.options.models;
  made->options.on_ignored = base.options.on_ignored;
  made->options.pictures = base.options.pictures;
  made->options.limits_of = base.options.limits_of;
  made->options.export_key = base.options.export_key;
  return made;
}

}  // namespace

Result<std::shared_ptr<const SessionContext>> OpenModels::Open(std::string_view asked) {
  ModelSource* const source = first_->options.models;
  if (source == nullptr) return first_;
  ASSIGN_OR_RETURN(const std::string name, source->Resolve(asked, "model"));
  if (name == first_->options.model_name) return first_;
  const auto find = [&]() -> std::shared_ptr<const SessionContext> {
    std::lock_guard lock(mutex_);
    const auto at = contexts_.find(name);
    return at == contexts_.end() ? nullptr : at->second;
  };
  if (auto known = find()) return known;
  ASSIGN_OR_RETURN(const DiskWait wait, DiskWait::Begin());
  std::lock_guard one(opening_);
  if (auto known = find()) return known;
  ASSIGN_OR_RETURN(SessionModel model, source->Open(name));
  auto made = WithModel(*first_, std::move(model));
  std::lock_guard lock(mutex_);
  contexts_.emplace(name, made);
  return made;
}

std::shared_ptr<const SessionContext> OpenModels::Known(const std::string& model) const {
  std::lock_guard lock(mutex_);
  const auto at = contexts_.find(model);
  return at == contexts_.end() ? first_ : at->second;
}

Result<std::shared_ptr<const SessionContext>> OpenModels::Choose(const std::string& own, const std::string& asked) {
  if (own.empty() || asked.empty()) return Open(own.empty() ? asked : own);
  ASSIGN_OR_RETURN(const std::string name, first_->options.models->Resolve(asked, "model"));
  if (name != own) return OtherModel(own);
  return Open(own);
}

}  // namespace ringside
