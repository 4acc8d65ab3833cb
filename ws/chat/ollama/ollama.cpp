#include "ws/chat/ollama/ollama.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <ctime>
#include <map>
#include <utility>

#include "base/clock.h"
#include "base/limits.h"
#include "ws/chat/message_fields.h"
#include "ws/chat/model_changes.h"
#include "ws/chat/ollama/ollama_embed.h"
#include "ws/chat/ollama/ollama_errors.h"
#include "ws/chat/prompts.h"
#include "ws/content/asked_model.h"
#include "ws/content/image_fields.h"
#include "ws/content/response_objects.h"
#include "ws/content/tool_fields.h"
#include "ws/content/tool_names.h"
#include "ws/fields/common_fields.h"
#include "ws/fields/field_readers.h"
#include "ws/fields/ignored_report.h"
#include "ws/fields/reasoning_fields.h"
#include "ws/fields/sampling_fields.h"
#include "ws/json/json_text.h"
#include "ws/json/json_writer.h"

namespace ringside {
namespace {

const MessageRules kOllamaRules{.roles = {"system", "user", "assistant"},
                                .reasoning = {"thinking"},
                                .ignored = {"tool_name"},
                                .images = "images",
                                .tools = true};

/// Version of Ollama whose API this implements. Clients require a minimum.
constexpr const char* kOllamaVersion = "0.24.0";

enum class OllamaFace { kChat, kGenerate };

struct OllamaRequest {
  IgnoredFields ignored;
  TurnSpec turn;
  ReasoningRequest reasoning;
  std::string prompt, system;
  NewItem images;                // the images of `prompt`
  std::vector<TokenId> context;  // token ids of an earlier prompt and answer
  bool raw = false, stream = true, unloads = false, logprobs = false;
  int64_t top_logprobs = 0;
};

/// "2026-11-24T07:00:00.123456Z"
std::string Timestamp(double seconds) {
  const auto whole = static_cast<std::time_t>(std::floor(seconds));
  std::tm utc{};
  gmtime_r(&whole, &utc);
  char text[64];
  const auto micros = static_cast<int>((seconds - std::floor(seconds)) * 1e6);
  const size_t length = std::strftime(text, sizeof(text), "%Y-%m-%dT%H:%M:%S", &utc);
  return std::string(text, length) + fmt::format(".{:06}Z", micros);
}

int64_t Nanoseconds(double ms) { return static_cast<int64_t>(ms * 1e6); }

Status ReadCount(const JsonValue& value, const std::string& param, const FieldContext&, TurnSpec* turn) {
  int64_t count = 0;
  RETURN_IF_ERROR(ReadInteger(value, param, -2, INT64_MAX, &count));
  // -1: unlimited, -2: until the context is full.
  if (count == 0) return InvalidArgument("num_predict must not be 0.", param, "invalid_value");
  if (count > 0) turn->max_output_tokens = count;
  return Status::Ok();
}

/// Unsupported samplers: 0 disables them, and 1 all except mirostat.
Status ReadLacking(const JsonValue& value, const std::string& param, const FieldContext& context, void*) {
  const std::string name = param.substr(param.rfind('.') + 1);
  const bool off = IsEmpty(value) || (name != "mirostat" && value.is_number() && value.number() == 1);
  return off ? Status::Ok() : context.ignored->Hint(param, "'" + name + "'");
}

/// Members of "options".
const FieldTable<TurnSpec>& OptionsTable() {
  static const FieldTable<TurnSpec> table = [] {
    Fields<TurnSpec> rows = Join(
        Fields<TurnSpec>{
            {"num_predict", FieldType::kInteger, ReadCount, FieldPolicy::kClamp, "at least 1, or -1, or -2"},
            {"repeat_penalty", AliasOf{"repetition_penalty"}},
        },
        SamplingFields());
    for (const char* name : {"mirostat", "tfs_z", "typical_p", "penalize_newline"}) {
      rows.emplace_back(name, FieldType::kAny, ReadLacking, FieldPolicy::kHint);
    }
    // Settings of Ollama's runner, and details of mirostat.
    for (const char* name : {"num_ctx", "num_batch", "num_gpu", "main_gpu", "num_thread", "num_keep", "use_mmap",
                             "numa", "low_vram", "use_mlock", "f16_kv", "vocab_only", "logits_all", "repeat_last_n",
                             "embedding_only", "mirostat_tau", "mirostat_eta"}) {
      rows.emplace_back(name, Silent{});
    }
    return FieldTable<TurnSpec>(std::move(rows));
  }();
  return table;
}

Status ReadOptions(const JsonValue& value, const std::string& param, const FieldContext& context, TurnSpec* turn) {
  if (!value.is_object()) return WrongType(value, param, "an object");
  RETURN_IF_ERROR(OptionsTable().Read(value, context, turn, param + "."));
  return CheckBeamFields(value, turn);
}

// "json", or a schema.
Status ReadOllamaFormat(const JsonValue& value, const std::string& param, const FieldContext&, TurnSpec* turn) {
  AnswerFormat& format = turn->format.emplace();
  format.param = param;
  if (value.is_object()) {
    format.kind = AnswerFormat::Kind::kJsonSchema;
    JsonWriter json;
    WriteJson(json, value);
    format.text = json.Take();
    return Status::Ok();
  }
  std::string name;
  RETURN_IF_ERROR(ReadString(value, param, &name));
  if (name.empty()) return Status::Ok();
  if (name != "json") return Unsupported(param, "a format of '" + name.substr(0, 64) + "'");
  format.kind = AnswerFormat::Kind::kJsonObject;
  return Status::Ok();
}

/// 0 without a prompt unloads the model. Other times have no effect: memory decides.
Status ReadKeepAlive(const JsonValue& value, const std::string&, const FieldContext&, OllamaRequest* request) {
  constexpr std::string_view kNone[] = {"0", "0s", "0m", "0h"};
  request->unloads =
      value.is_number() ? value.number() == 0 : value.is_string() && std::ranges::count(kNone, value.string()) > 0;
  return Status::Ok();
}

Status ReadOllamaChat(const JsonValue& value, const std::string& param, const FieldContext& context, TurnSpec* turn) {
  return ReadMessages(value, param, kOllamaRules, 0, context.ignored, &turn->input);
}

Status ReadContext(const JsonValue& value, const std::string& param, const FieldContext&, OllamaRequest* request) {
  return ReadTokenIds(value, param, &request->context);
}

Status ReadPromptImages(const JsonValue& value, const std::string& param, const FieldContext&, OllamaRequest* request) {
  return ReadImageList(value, param, &request->images);
}

FieldTable<OllamaRequest> MakeTable(OllamaFace face) {
  const Fields<OllamaRequest> chat =
      In(&OllamaRequest::turn, Join(Fields<TurnSpec>{{"messages", FieldType::kArray, ReadOllamaChat}},
                                    Only(ToolRows(ToolShape::kNested, /*strict_default=*/false), {"tools"})));
  const Fields<OllamaRequest> generate = {{"prompt", &OllamaRequest::prompt},
                                          {"system", &OllamaRequest::system},
                                          {"raw", &OllamaRequest::raw},
                                          {"context", FieldType::kArray, ReadContext},
                                          {"tools", Refuse{}},
                                          {"suffix", Refuse{}},
                                          {"images", FieldType::kAny, ReadPromptImages},
                                          {"width", Hint{}},
                                          {"height", Hint{}},
                                          {"steps", Hint{}}};
  return FieldTable<OllamaRequest>(
      Join(face == OllamaFace::kChat ? chat : generate,
           Fields<OllamaRequest>{{"stream", &OllamaRequest::stream},
                                 {"keep_alive", FieldType::kAny, ReadKeepAlive, FieldPolicy::kSilent},
                                 {"logprobs", &OllamaRequest::logprobs},
                                 {"top_logprobs", &OllamaRequest::top_logprobs, Range{0, limits::kMaxTopLogprobs}},
                                 {"template", Refuse{}}},
           In(&OllamaRequest::turn,
              Fields<TurnSpec>{ModelField(),
                               {"options", FieldType::kObject, ReadOptions, FieldPolicy::kRead, OptionsTable()},
                               {"format", FieldType::kString | FieldType::kObject, ReadOllamaFormat},
                               {"truncate", &TurnSpec::history_slides}}),
           In(&OllamaRequest::reasoning, ReasoningFields()), ForeignFields()));
}

const FieldTable<OllamaRequest>& TableOf(OllamaFace face) {
  static const FieldTable<OllamaRequest> chat = MakeTable(OllamaFace::kChat),
                                         generate = MakeTable(OllamaFace::kGenerate);
  return face == OllamaFace::kChat ? chat : generate;
}

Result<OllamaRequest> ReadOllamaRequest(const JsonValue& body, OllamaFace face, const SessionTableOptions& options) {
  OllamaRequest out;
  out.ignored = IgnoredFields(options.strict_requests);
  out.turn = StatelessTurn(options);
  out.turn.history_slides = true;
  RETURN_IF_ERROR(TableOf(face).Read(body, {options, &out.ignored}, &out));
  ClampOutput(options, "options.num_predict", &out.turn, &out.ignored);
  RETURN_IF_ERROR(SetReasoning(out.reasoning, options, &out.ignored, &out.turn));
  if (out.top_logprobs > 0 && !out.logprobs) {
    return InvalidArgument("'top_logprobs' needs 'logprobs'.", "top_logprobs", "invalid_value");
  }
  if (out.logprobs) out.turn.sampling.logprobs = out.top_logprobs;
  if (out.prompt.empty()) return out;
  if (out.raw && !out.images.images.empty()) return out.images.images.front().refusal;
  if (out.raw) {
    out.turn.raw = RawPrompt{std::move(out.prompt), {}};
    return out;
  }
  out.turn.token_ids = face == OllamaFace::kGenerate;  // for the response's context
  if (!out.system.empty()) out.turn.input.push_back({ChatRole::kSystem, std::move(out.system)});
  if (out.images.images.empty()) {
    out.turn.input.push_back({ChatRole::kUser, std::move(out.prompt)});
  } else {
    AddPart(out.prompt, &out.images);
    out.turn.input.push_back(std::move(out.images));
  }
  return out;
}

class OllamaFormat final : public AnswerWriter {
 public:
  OllamaFormat(const Tokenizer& tokenizer, OllamaFace face, std::string model, bool logprobs, bool shows_reasoning,
               std::vector<std::string> ignored)
      : tokenizer_(tokenizer),
        face_(face),
        model_(std::move(model)),
        logprobs_(logprobs),
        shows_reasoning_(shows_reasoning),
        ignored_(std::move(ignored)) {}

  std::string Begin(size_t, const Response&, bool) const override { return ""; }
  bool streams_reasoning() const override { return shows_reasoning_; }
  std::string ReasoningPiece(const ChoicePiece& piece) const override {
    JsonWriter json;
    Open(json);
    WriteText(json, "", piece.text);
    return json.Field("done", false).EndObject().Take() + "\n";
  }
  bool streams_arguments(const TurnEvent&) const override { return false; }
  // A complete call, whose arguments are an object.
  std::string Call(size_t, const TurnEvent& event) const override {
    if (event.kind != TurnEvent::Kind::kCallEnded || !event.whole) return "";
    JsonWriter json;
    Open(json);
    WriteText(json, "", "", {{event.name, event.text}});
    return json.Field("done", false).EndObject().Take() + "\n";
  }
  std::string Piece(const ChoicePiece& piece) const override {
    JsonWriter json;
    Open(json);
    WriteText(json, piece.text);
    WriteLogprobs(json, piece.tokens);
    return json.Field("done", false).EndObject().Take() + "\n";
  }
  std::string End(size_t, const Response& response) const override { return Last(response, false) + "\n"; }
  std::string Finish(const EndedChoices&) const override { return ""; }
  std::string Failure(const Status& status) const override { return OllamaErrorLine(status) + "\n"; }
  const char* stream_type() const override { return "application/x-ndjson"; }
  std::string Whole(const EndedChoices& choices) const override { return Last(*choices[0], true); }
  HttpResponse Refusal(const Status& status, int64_t retry_after_ms) const override {
    return OllamaRefusal(status, retry_after_ms);
  }

  /// The response to a request without input.
  std::string Empty(std::string_view reason) const {
    JsonWriter json;
    Open(json);
    WriteText(json, "");
    json.Field("done", true).Field("done_reason", reason);
    WriteRingsideIgnored(json, ignored_);
    return json.EndObject().Take();
  }

 private:
  void Open(JsonWriter& json) const {
    json.BeginObject().Field("model", model_);
    json.Field("created_at", Timestamp(SystemClock::Instance().WallSeconds()));
  }
  void WriteText(JsonWriter& json, std::string_view text, std::string_view reasoning = "",
                 const std::vector<ToolCall>& calls = {}) const {
    const bool generate = face_ == OllamaFace::kGenerate;
    if (!generate) json.Key("message").BeginObject().Field("role", "assistant");
    json.Field(generate ? "response" : "content", text);
    if (!reasoning.empty()) json.Field("thinking", reasoning);
    if (generate) return;
    bool any = false;
    for (const ToolCall& call : calls) {
      if (!call.complete) continue;  // cut: not a valid object
      if (!std::exchange(any, true)) json.Key("tool_calls").BeginArray();
      json.BeginObject().Key("function").BeginObject().Field("name", ClientToolOf(call.name).name);
      json.Key("arguments").Raw(call.arguments).EndObject().EndObject();
    }
    if (any) json.EndArray();
    json.EndObject();
  }
  void WriteLogprobs(JsonWriter& json, std::span<const OutputToken> tokens) const {
    if (logprobs_ && !tokens.empty()) json.Key("logprobs").Raw(Logprobs(tokens, tokenizer_));
  }
  /// The final object of an answer; a complete answer's includes its text.
  std::string Last(const Response& response, bool whole) const {
    JsonWriter json;
    Open(json);
    const std::string_view reasoning = shows_reasoning_ ? std::string_view(response.reasoning) : "";
    whole ? WriteText(json, response.message(), reasoning, response.tool_calls()) : WriteText(json, "");
    if (whole) WriteLogprobs(json, response.tokens);
    json.Field("done", true)
        .Field("done_reason", IsFull(response)  ? kSessionFull
                              : IsCut(response) ? "length"
                                                : "stop");
    const TurnTimes& times = response.times;
    json.Field("total_duration", Nanoseconds(times.queue_ms + times.prefill_ms + times.decode_ms));
    json.Field("load_duration", Nanoseconds(times.queue_ms));
    json.Field("prompt_eval_count", response.input_tokens);
    json.Field("prompt_eval_duration", Nanoseconds(times.prefill_ms));
    json.Field("eval_count", response.output_tokens).Field("eval_duration", Nanoseconds(times.decode_ms));
    if (face_ == OllamaFace::kGenerate && response.token_ids) WriteContext(json, response);
    WriteRingsideIgnored(json, ignored_, RepetitionReason(response));
    return json.EndObject().Take();
  }
  /// Ids of prompt and answer, for the next request.
  static void WriteContext(JsonWriter& json, const Response& response) {
    json.Key("context").BeginArray();
    for (const TokenId id : response.prompt_ids.From(0)) json.Value(id);
    for (const TokenId id : response.output_ids) json.Value(id);
    json.EndArray();
  }

  const Tokenizer& tokenizer_;
  const OllamaFace face_;
  const std::string model_;
  const bool logprobs_, shows_reasoning_;
  const std::vector<std::string> ignored_;
};

/// Appends the request's messages to its context, as a prompt of token ids.
Status PrepareContinuation(const SessionTable& table, const SessionTableOptions& options, OllamaRequest* request) {
  std::vector<TokenId>& context = request->context;
  if (context.empty() || request->turn.input.empty()) return Status::Ok();
  const bool ended = std::ranges::count(options.end_of_turn, context.back()) > 0;
  ASSIGN_OR_RETURN(const std::vector<TokenId> next,
                   table.TokensAfterAnswer(options.model_name, request->turn.input, ended));
  context.insert(context.end(), next.begin(), next.end());
  request->turn.raw = RawPrompt{.tokens = std::move(context), .chat = true};
  // The earlier messages were rendered with the template's default settings.
  if (!request->turn.reasoning.says_nothing())
    RETURN_IF_ERROR(request->ignored.Hint("think", "'think' with 'context'"));
  request->turn.input.clear();
  return Status::Ok();
}

HttpResponse Answer(const ChatService& service, OllamaFace face, const HttpRequest& request) {
  const auto body = ReadAskedBody(service.table, request);
  if (!body.ok()) return OllamaRefusal(body.status());
  const SessionTableOptions& options = *body->options;
  Result<OllamaRequest> read = ReadOllamaRequest(body->json, face, options);
  if (!read.ok()) return OllamaRefusal(read.status());
  if (const Status begun = PrepareContinuation(service.table, options, &*read); !begun.ok())
    return OllamaRefusal(begun);
  const bool asks = !read->turn.input.empty() || read->turn.raw;
  // A load or an unload delays the turns of others.
  const bool changes = !asks && service.change_model && request.scopes.Has(Scopes::Admin());
  if (!asks && read->unloads && service.change_model && !changes) {
    const Status noted = read->ignored.Hint("keep_alive", "an unload with a key without scope admin");
    if (!noted.ok()) return OllamaRefusal(noted);
  }
  const std::vector<std::string>& ignored = read->ignored.names();
  auto format = std::make_shared<OllamaFormat>(*options.tokenizer, face, ModelNameOf(read->turn.adapter, options),
                                               read->logprobs, !read->reasoning.hidden, ignored);
  if (!asks) {
    const auto answer_of = [format, unloads = read->unloads](const Status& status) {
      return status.ok() ? JsonResponse(format->Empty(unloads ? "unload" : "load")) : OllamaRefusal(status);
    };
    const ModelChange change = read->unloads ? ModelChange::kUnload : ModelChange::kLoad;
    return Reported(changes ? AnswerModelChange(service, change, options.model_name, answer_of) : answer_of({}),
                    options, request, ignored);
  }
  HttpResponse answer = AnswerStateless(service, request,
                                        {.prompts = {std::move(read->turn)},
                                         .stream = read->stream,
                                         .input_param = face == OllamaFace::kChat ? "messages" : "prompt",
                                         .length_param = "options.num_predict"},
                                        std::move(format));
  return Reported(std::move(answer), options, request, ignored);
}

void WriteDetails(JsonWriter& json, const std::string& family = "") {
  json.Key("details").BeginObject().Field("parent_model", "").Field("format", "").Field("family", family);
  json.Key("families").BeginArray().EndArray().Field("parameter_size", "").Field("quantization_level", "").EndObject();
}

/// Available models or, `loaded`, models in memory: the same in a server with one.
HttpResponse ListModels(const ChatService& service, const ServerFacts& facts, bool loaded) {
  const auto all = service.models ? service.models()
                                  : std::vector<ServedModel>{ServedModelOf(service.table.options(), facts.created)};
  JsonWriter json;
  json.BeginObject().Key("models").BeginArray();
  for (const ServedModel& model : all) {
    if (loaded && !model.state.empty() && model.state != "loaded") continue;
    std::vector<std::string> names{model.name};
    names.insert(names.end(), model.adapters.begin(), model.adapters.end());
    for (const std::string& name : names) {
      json.BeginObject();
      json.Field("name", name + ":latest").Field("model", name + ":latest");
      json.Field("size", loaded ? model.memory_bytes : model.file_bytes).Field("digest", "");
      json.Field(loaded ? "expires_at" : "modified_at", loaded ? "9999-12-31T23:59:59Z" : Timestamp(facts.created));
      if (loaded) json.Field("size_vram", 0).Field("context_length", model.request_len);
      WriteDetails(json, model.family);
      if (!model.state.empty()) {
        json.Key("ringside").BeginObject().Field("state", model.state);
        if (!model.reason.empty()) json.Field("reason", model.reason);
        json.EndObject();
      }
      json.EndObject();
    }
  }
  json.EndArray().EndObject();
  return JsonResponse(json.Take());
}

/// A request about a model.
struct ModelQuestion {
  IgnoredFields ignored;
  TurnSpec turn;  // with the model's adapter
  bool stream = true;
};

/// `pulls`: fields of /api/pull, otherwise of /api/show.
FieldTable<ModelQuestion> MakeQuestionTable(bool pulls) {
  const Fields<ModelQuestion> pull = {{"stream", &ModelQuestion::stream}, {"insecure", Silent{}}};
  const Fields<ModelQuestion> show = {{"verbose", Silent{}}};
  const Fields<void> hints = {{"system", Hint{}}, {"template", Hint{}}, {"options", Hint{}}};
  return FieldTable<ModelQuestion>(
      Join(Join(pulls ? pull : show, In(&ModelQuestion::turn, Fields<TurnSpec>{ModelField()})),
           Fields<ModelQuestion>{{"name", AliasOf{"model"}}}, pulls ? Fields<void>{} : hints));
}

const FieldTable<ModelQuestion>& QuestionTable(bool pulls) {
  static const FieldTable<ModelQuestion> pull = MakeQuestionTable(true), show = MakeQuestionTable(false);
  return pulls ? pull : show;
}

Result<ModelQuestion> ReadQuestion(const JsonValue& body, bool pulls, const SessionTableOptions& options) {
  ModelQuestion out{.ignored = IgnoredFields(options.strict_requests)};
  RETURN_IF_ERROR(QuestionTable(pulls).Read(body, {options, &out.ignored}, &out));
  return out;
}

/// Clients pull a model before they use it: the served one is always present.
HttpResponse PullModel(const SessionTableOptions& options, const HttpRequest& request) {
  const Result<JsonValue> body = ReadBody(request);
  if (!body.ok()) return OllamaRefusal(body.status());
  const Result<ModelQuestion> asked = ReadQuestion(*body, /*pulls=*/true, options);
  if (!asked.ok()) return OllamaRefusal(asked.status());
  JsonWriter json;
  json.BeginObject().Field("status", "success");
  WriteRingsideIgnored(json, asked->ignored.names());
  HttpResponse response;
  response.body = json.EndObject().Take() + "\n";
  if (asked->stream) response.content_type = "application/x-ndjson";
  return Reported(std::move(response), options, request, asked->ignored.names());
}

HttpResponse ShowModel(const ChatService& service, const ServerFacts& facts, const HttpRequest& request) {
  const auto body = ReadAskedBody(service.table, request);
  if (!body.ok()) return OllamaRefusal(body.status());
  const SessionTableOptions& options = *body->options;
  const Result<ModelQuestion> asked = ReadQuestion(body->json, /*pulls=*/false, options);
  if (!asked.ok()) return OllamaRefusal(asked.status());
  JsonWriter json;
  json.BeginObject().Field("modelfile", "").Field("parameters", "").Field("template", "");
  json.Field("modified_at", Timestamp(facts.created));
  WriteDetails(json);
  json.Key("model_info").BeginObject().Field("general.architecture", "ringside");
  json.Field("general.basename", ModelNameOf(asked->turn.adapter, options))
      .Field("ringside.context_length", options.request_len());
  json.Field("ringside.session_len", options.session_len).EndObject();
  json.Key("capabilities").BeginArray().Value("completion").Value("tools");
  if (options.embedding_size > 0) json.Value("embedding");
  if (options.images != nullptr) json.Value("vision");
  if (options.reasons) json.Value("thinking");
  WriteRingsideIgnored(json.EndArray(), asked->ignored.names());
  json.EndObject();
  return Reported(JsonResponse(json.Take()), options, request, asked->ignored.names());
}

/// Refuses unsupported requests by name, in this API's error format.
void AddRefusals(Router& router) {
  static constexpr std::pair<const char*, const char*> kRoutes[] = {{"POST", "/api/create"},
                                                                    {"POST", "/api/copy"},
                                                                    {"POST", "/api/push"},
                                                                    {"DELETE", "/api/delete"},
                                                                    {"POST", "/api/blobs/{digest}"}};
  for (const auto& [method, path] : kRoutes) {
    router.Add(method, path, [](const HttpRequest&, const Router::Parameters&) {
      return OllamaRefusal(Unsupported("", "changes of its models: it serves those that it was started with"));
    });
  }
}

}  // namespace

void AddOllamaRoutes(Router& router, const ChatService& service, const ServerFacts& facts) {
  using Ids = Router::Parameters;
  router.Add("POST", "/api/chat",
             [service](const HttpRequest& r, const Ids&) { return Answer(service, OllamaFace::kChat, r); });
  router.Add("POST", "/api/generate",
             [service](const HttpRequest& r, const Ids&) { return Answer(service, OllamaFace::kGenerate, r); });
  router.Add("POST", "/api/embed",
             [service](const HttpRequest& r, const Ids&) { return OllamaEmbed(service, false, r); });
  router.Add("POST", "/api/embeddings",
             [service](const HttpRequest& r, const Ids&) { return OllamaEmbed(service, true, r); });
  router.Add("GET", "/api/tags",
             [service, facts](const HttpRequest&, const Ids&) { return ListModels(service, facts, /*loaded=*/false); });
  router.Add("GET", "/api/ps",
             [service, facts](const HttpRequest&, const Ids&) { return ListModels(service, facts, /*loaded=*/true); });
  router.Add("POST", "/api/pull",
             [service](const HttpRequest& r, const Ids&) { return PullModel(service.table.options(), r); });
  router.Add("POST", "/api/show",
             [service, facts](const HttpRequest& r, const Ids&) { return ShowModel(service, facts, r); });
  router.Add("GET", "/api/version", [facts](const HttpRequest&, const Ids&) {
    JsonWriter json;
    json.BeginObject().Field("version", kOllamaVersion).Key("ringside").BeginObject();
    json.Field("version", facts.version).EndObject().EndObject();
    return JsonResponse(json.Take());
  });
  AddRefusals(router);
}

std::vector<RequestKind> OllamaKinds() {
  std::vector<RequestKind> kinds = {{"POST /api/chat", TableOf(OllamaFace::kChat).Describe()},
                                    {"POST /api/generate", TableOf(OllamaFace::kGenerate).Describe()},
                                    {"POST /api/pull", QuestionTable(true).Describe()},
                                    {"POST /api/show", QuestionTable(false).Describe()}};
  for (RequestKind& kind : OllamaEmbedKinds()) kinds.push_back(std::move(kind));
  return kinds;
}

}  // namespace ringside
