#include "ws/chat/anthropic/anthropic_messages.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/refusals/context_overflow.h"
#include "base/refusals/server_overload.h"
#include "session/ids.h"
#include "ws/chat/anthropic/anthropic_content.h"
#include "ws/chat/message_fields.h"
#include "ws/chat/prompts.h"
#include "ws/content/asked_model.h"
#include "ws/content/compaction.h"
#include "ws/content/returned_reasoning.h"
#include "ws/fields/common_fields.h"
#include "ws/fields/context_edit_fields.h"
#include "ws/fields/field_readers.h"
#include "ws/fields/ignored_report.h"
#include "ws/fields/reasoning_fields.h"
#include "ws/fields/sampling_fields.h"
#include "ws/fields/timeline_key.h"
#include "ws/json/json_text.h"
#include "ws/json/json_writer.h"

namespace ringside {
namespace {

struct MessageRequest {
  IgnoredFields ignored;
  TurnSpec turn;
  ReasoningRequest reasoning;
  NewItem system{.role = ChatRole::kSystem};
  bool stream = false;
  bool continues = false;  // the last message starts the answer
  std::optional<ContextEditFields> edits;
};

/// `context_management` of a request, and the applied edits.
struct EditsReport {
  std::optional<ContextEditFields> asked;
  std::vector<AppliedEdit> applied;
  std::optional<CompactionReport> compaction;

  bool paused() const { return compaction && asked->compaction->pauses; }
};

// Anthropic's status for an overloaded server; its SDKs retry it.
constexpr int kOverloadedStatus = 529;

int HttpStatusOf(const WireError& wire) {
  return wire.code == ServerOverload::kReason ? kOverloadedStatus : wire.http_status;
}

const char* ErrorType(int http_status) {
  switch (http_status) {
    case 401:
      return "authentication_error";
    case 403:
      return "permission_error";
    case 404:
      return "not_found_error";
    case 413:
      return "request_too_large";
    case 429:
      return "rate_limit_error";
    case 503:
    case kOverloadedStatus:
      return "overloaded_error";
    default:
      return http_status < 500 ? "invalid_request_error" : "api_error";
  }
}

/// Anthropic's own words, by which clients recognize an overflow.
std::string OverflowMessage(const ContextOverflow& overflow) {
  return fmt::format("prompt is too long: {} tokens > {} maximum{}", overflow.tokens, overflow.limit,
                     overflow.at_least ? " (or more tokens: counting stopped there)" : "");
}

std::string ErrorBody(const Status& status) {
  const WireError wire = MapStatus(status);
  JsonWriter json;
  json.BeginObject().Field("type", "error").Key("error").BeginObject();
  json.Field("type", ErrorType(HttpStatusOf(wire)));
  if (const auto overflow = ReadContextOverflow(status)) {
    json.Field("message", OverflowMessage(*overflow));
  } else {
    json.Field("message", wire.param.empty() ? wire.message : wire.param + ": " + wire.message);
  }
  json.Key("details").BeginObject().TextOrNull("error_code", wire.code).EndObject();
  return json.EndObject().EndObject().Take();
}

HttpResponse ErrorAnswer(const Status& status, int64_t retry_after_ms = 0) {
  HttpResponse response = ErrorResponse(status, retry_after_ms);
  response.status = HttpStatusOf(MapStatus(status));
  response.body = ErrorBody(status);
  return response;
}

/// {"type": "json_schema", "schema"}
Status ReadOutputFormat(const JsonValue& value, const std::string& param, IgnoredFields* ignored, AnswerFormat* out) {
  if (!value.is_object()) return WrongType(value, param, "an object");
  const JsonValue *type = value.Find("type"), *schema = value.Find("schema");
  if (type == nullptr || !type->is_string() || type->string() != "json_schema") {
    return Unsupported(param + ".type", "another format than 'json_schema'");
  }
  if (schema == nullptr) return MissingParameter(param + ".schema");
  if (!schema->is_object()) return WrongType(*schema, param + ".schema", "an object");
  for (const auto& [key, field] : value.object()) {
    if (key != "type" && key != "schema") RETURN_IF_ERROR(ignored->Unknown(param + "." + key));
  }
  JsonWriter json;
  WriteJson(json, *schema);
  *out = {.kind = AnswerFormat::Kind::kJsonSchema, .text = json.Take(), .param = param + ".schema"};
  return Status::Ok();
}

Status ReadMessageFormat(const JsonValue& value, const std::string& param, const FieldContext& context,
                         MessageRequest* request) {
  return ReadOutputFormat(value, param, context.ignored, &request->turn.format.emplace());
}

Status ReadUserMetadata(const JsonValue& value, const std::string& param, const FieldContext& context,
                        MessageRequest* request) {
  if (!value.is_object()) return context.ignored->Hint(param, "such a '" + param + "'");
  const JsonValue* const user = value.Find("user_id");
  if (user != nullptr && user->is_string()) NoteTimelineKey("user_id", user->string(), &request->turn);
  return Status::Ok();
}

/// Has no effect on the answer.
Status ReadCacheControl(const JsonValue& value, const std::string& param, const FieldContext& context, void*) {
  return value.is_object() ? Status::Ok() : context.ignored->Hint(param, "such a '" + param + "'");
}

/// This code makes the client send the whole history from now on.
Status RefuseThread(const JsonValue& value, const std::string& param, const FieldContext&, void*) {
  if (IsEmpty(value)) return Status::Ok();
  return InvalidArgument("This server does not support 'thread'.", param, "thread_unsupported_request");
}

Fields<MessageRequest> ContentRows() {
  using Value = const JsonValue&;
  using Param = const std::string&;
  using Context = const FieldContext&;
  return {
      {"messages", FieldType::kArray,
       [](Value value, Param param, Context context, MessageRequest* request) {
         return ReadAnthropicMessages(value, param, context.ignored, &request->turn.input);
       }},
      {"system", FieldType::kString | FieldType::kArray,
       [](Value value, Param param, Context context, MessageRequest* request) {
         return ReadAnthropicText(value, param, context.ignored, &request->system);
       }},
      {"tool_choice", FieldType::kObject,
       [](Value value, Param param, Context context, MessageRequest* request) {
         return ReadAnthropicToolChoice(value, param, context.ignored, &request->turn.choice());
       }},
      {"tools", FieldType::kArray,
       [](Value value, Param param, Context context, MessageRequest* request) {
         return ReadAnthropicTools(value, param, context.ignored, &request->turn.tools.emplace());
       }},
      {"context_management", FieldType::kObject,
       [](Value value, Param param, Context context, MessageRequest* request) {
         return ReadContextEdits(value, param, context.ignored, &request->edits.emplace());
       }},
  };
}

const FieldTable<MessageRequest>& MessageTable() {
  static const FieldTable<MessageRequest> output_config(
      Join(Fields<MessageRequest>{{"format", FieldType::kObject, ReadMessageFormat}},
           In(&MessageRequest::reasoning,
              Fields<ReasoningRequest>{{"effort", FieldType::kString, ReadReasoningEffort, FieldPolicy::kLenient}})));
  static const Fields<void> hints = {
      {"service_tier", Hint{{"auto", "standard_only"}, "a service tier"}},
      {"speed", Hint{{"standard"}}},
      {"mcp_servers", Hint{}},
      {"container", Hint{}},
      {"compaction", Hint{}},
      {"diagnostics", Hint{}},
      {"fallbacks", Hint{}},
      {"fallback_credit_token", Hint{}},
      {"inference_geo", Hint{}},
      {"billing_policy", Hint{}},
      {"cache_control", FieldType::kObject, ReadCacheControl, FieldPolicy::kLenient},
      {"thread", FieldType::kAny, RefuseThread, FieldPolicy::kRefuse},
  };
  static const std::vector<std::string_view> sampling = {"temperature", "top_p", "top_k", "min_p", "seed", "stop"};
  static const FieldTable<MessageRequest> table(
      Join(Fields<MessageRequest>{{"stream", &MessageRequest::stream},
                                  {"metadata", FieldType::kObject, ReadUserMetadata, FieldPolicy::kLenient},
                                  {"output_config", output_config},
                                  {"output_format", FieldType::kObject, ReadMessageFormat}},  // of the beta API
           ContentRows(),
           In(&MessageRequest::turn, Join(Fields<TurnSpec>{ModelField(), OutputTokensField("max_tokens")},
                                          Renamed(Only(SamplingFields(), sampling), "stop", "stop_sequences"))),
           In(&MessageRequest::reasoning, ReasoningFields()), hints, ForeignFields()));
  return table;
}

Result<MessageRequest> ReadMessageRequest(const JsonValue& body, const SessionTableOptions& options, bool counts_only) {
  MessageRequest out;
  out.ignored = IgnoredFields(options.strict_requests);
  out.turn = StatelessTurn(options);
  RETURN_IF_ERROR(MessageTable().Read(body, {options, &out.ignored}, &out));
  if (out.turn.input.empty()) return MissingParameter("messages");
  if (!counts_only && !out.turn.max_output_tokens) return MissingParameter("max_tokens");
  ClampOutput(options, "max_tokens", &out.turn, &out.ignored);
  const NewItem& last = out.turn.input.back();
  out.continues = last.role == ChatRole::kAssistant;
  if (out.continues && last.calls_at >= 0) {
    return Unsupported("messages", "a tool call at the end, to be gone on with");
  }
  RETURN_IF_ERROR(SetReasoning(out.reasoning, options, &out.ignored, &out.turn));
  if (!out.system.text.empty()) out.turn.input.insert(out.turn.input.begin(), std::move(out.system));
  return out;
}

class MessageFormat final : public AnswerWriter {
 public:
  /// `hides_reasoning`: blocks have no text; their signature contains it.
  MessageFormat(std::string id, std::string model, std::vector<std::string> ignored, bool hides_reasoning,
                EditsReport edits)
      : id_(std::move(id)),
        model_(std::move(model)),
        ignored_(std::move(ignored)),
        hides_reasoning_(hides_reasoning),
        edits_(std::move(edits)) {}

  std::string Begin(size_t, const Response& response, bool has_text) const override {
    JsonWriter message;
    message.BeginObject().Field("type", "message_start").Key("message");
    OpenMessage(message);
    message.Key("content").BeginArray().EndArray().Key("stop_reason").Null().Key("stop_sequence").Null();
    message.Key("usage").BeginObject().Field("input_tokens", response.input_tokens);
    message.Field("cache_creation_input_tokens", 0).Field("cache_read_input_tokens", 0).Field("output_tokens", 0);
    message.EndObject().EndObject().EndObject();
    return Event("message_start", message.text()) + Compacted(response) +
           (has_text && !edits_.paused() ? OpenText(0, FirstIndex(response)) : "") +
           Event("ping", R"({"type":"ping"})");
  }
  bool streams_reasoning() const override { return !hides_reasoning_; }
  std::string ReasoningPiece(const ChoicePiece& piece) const override {
    return Delta(piece.index, "thinking_delta", "thinking", piece.text);
  }
  std::string Reasoning(size_t, const TurnEvent& event) const override {
    const size_t index = event.output_index();
    if (event.kind == TurnEvent::Kind::kReasoningEnded) {
      return Delta(index, "signature_delta", "signature", Signature(event.text)) + EndBlock(index);
    }
    JsonWriter json;
    json.BeginObject().Field("type", "content_block_start").Field("index", index).Key("content_block");
    WriteThinking(json, "", "");
    return Event("content_block_start", json.EndObject().text());
  }
  std::string OpenText(size_t, size_t index) const override {
    JsonWriter json;
    json.BeginObject().Field("type", "content_block_start").Field("index", index).Key("content_block").BeginObject();
    return Event("content_block_start", json.Field("type", "text").Field("text", "").EndObject().EndObject().text());
  }
  std::string Piece(const ChoicePiece& piece) const override {
    return Delta(piece.index, "text_delta", "text", piece.text);
  }
  std::string EndText(size_t, size_t index) const override { return EndBlock(index); }
  std::string Call(size_t, const TurnEvent& event) const override {
    if (event.kind == TurnEvent::Kind::kCallEnded) return EndBlock(event.output_index());
    const bool begins = event.kind == TurnEvent::Kind::kCall;
    const char* type = begins ? "content_block_start" : "content_block_delta";
    JsonWriter json;
    json.BeginObject().Field("type", type).Field("index", event.output_index());
    if (begins) {
      WriteCall(json.Key("content_block"), *event.response, event.call, event.name, "{}");
    } else {
      json.Key("delta").BeginObject().Field("type", "input_json_delta").Field("partial_json", event.text).EndObject();
    }
    return Event(type, json.EndObject().text());
  }
  std::string End(size_t, const Response& response) const override {
    JsonWriter json;
    json.BeginObject().Field("type", "message_delta").Key("delta").BeginObject();
    WriteStop(json, response);
    json.EndObject();
    WriteUsage(json, response);
    if (edits_.asked) WriteAppliedEdits(json, edits_.asked->edits, edits_.applied);
    WriteRingsideIgnored(json, {}, RepetitionReason(response));
    json.EndObject();
    const bool text_open = HasText(response) && response.call_steps.empty() && !edits_.paused();
    return (text_open ? EndBlock(FirstIndex(response) + (response.reasoning_ends.empty() ? 0 : 1)) : "") +
           Event("message_delta", json.text()) + Event("message_stop", R"({"type":"message_stop"})");
  }
  std::string Finish(const EndedChoices&) const override { return ""; }
  std::string Failure(const Status& status) const override { return Event("error", ErrorBody(status)); }
  std::string Whole(const EndedChoices& choices) const override {
    const Response& response = *choices[0];
    JsonWriter json;
    OpenMessage(json, RepetitionReason(response));
    json.Key("content").BeginArray();
    const std::vector<ToolCall> calls = response.tool_calls();
    if (!response.compaction.empty()) WriteCompaction(json, edits_.compaction->summary.text, response.compaction);
    if (!response.reasoning_ends.empty()) {
      WriteThinking(json, hides_reasoning_ ? "" : response.reasoning, Signature(response.reasoning));
    }
    if (HasText(response) && !edits_.paused()) {
      json.BeginObject().Field("type", "text").Field("text", response.message()).EndObject();
    }
    for (size_t i = 0; i < calls.size(); ++i) {
      if (!calls[i].complete) continue;  // cut: not a valid object
      WriteCall(json, response, i, calls[i].name, calls[i].arguments);
    }
    json.EndArray();
    WriteStop(json, response);
    WriteUsage(json, response);
    if (edits_.asked) WriteAppliedEdits(json, edits_.asked->edits, edits_.applied);
    return json.EndObject().Take();
  }
  HttpResponse Refusal(const Status& status, int64_t retry_after_ms) const override {
    return ErrorAnswer(status, retry_after_ms);
  }

 private:
  static std::string Event(std::string_view name, std::string_view json) {
    return "event: " + std::string(name) + "\ndata: " + std::string(json) + "\n\n";
  }
  static std::string Delta(size_t index, std::string_view type, std::string_view member, std::string_view text) {
    JsonWriter json;
    json.BeginObject().Field("type", "content_block_delta").Field("index", index).Key("delta").BeginObject();
    json.Field("type", type).Field(member, text).EndObject().EndObject();
    return Event("content_block_delta", json.text());
  }
  static void WriteThinking(JsonWriter& json, std::string_view text, std::string_view signature) {
    json.BeginObject().Field("type", "thinking").Field("thinking", text).Field("signature", signature).EndObject();
  }
  static void WriteIteration(JsonWriter& json, std::string_view type, const AnswerUsage& usage) {
    json.BeginObject().Field("type", type).Field("input_tokens", usage.input - usage.cached);
    json.Field("cache_creation_input_tokens", 0).Field("cache_read_input_tokens", usage.cached);
    json.Field("output_tokens", usage.output).EndObject();
  }
  static size_t FirstIndex(const Response& response) { return response.compaction.empty() ? 0 : 1; }
  static void WriteCompaction(JsonWriter& json, std::string_view summary, std::string_view opaque) {
    json.BeginObject().Field("type", "compaction").Field("content", summary).Field("encrypted_content", opaque);
    json.EndObject();
  }
  /// Events of the compaction block before the answer; "" if the history was not compacted.
  std::string Compacted(const Response& response) const {
    if (response.compaction.empty()) return "";
    JsonWriter begin, delta;
    begin.BeginObject().Field("type", "content_block_start").Field("index", 0).Key("content_block").BeginObject();
    begin.Field("type", "compaction").Key("content").Null().Key("encrypted_content").Null().EndObject().EndObject();
    delta.BeginObject().Field("type", "content_block_delta").Field("index", 0).Key("delta").BeginObject();
    delta.Field("type", "compaction_delta").Field("content", edits_.compaction->summary.text);
    delta.Field("encrypted_content", response.compaction).EndObject().EndObject();
    return Event("content_block_start", begin.text()) + Event("content_block_delta", delta.text()) + EndBlock(0);
  }
  /// Identifies the block, or contains its hidden text. Clients drop blocks without a signature.
  std::string Signature(std::string_view text) const { return hides_reasoning_ ? EncodeReasoning(text) : id_; }
  static std::string EndBlock(size_t index) {
    JsonWriter json;
    json.BeginObject().Field("type", "content_block_stop").Field("index", index);
    return Event("content_block_stop", json.EndObject().text());
  }
  static void WriteCall(JsonWriter& json, const Response& response, size_t call, std::string_view name,
                        std::string_view input) {
    json.BeginObject().Field("type", "tool_use").Field("id", ToolCallId("toolu_", response.item_id, call));
    json.Field("name", name).Key("input").Raw(input).EndObject();
  }
  void OpenMessage(JsonWriter& json, std::string_view incomplete_reason = "") const {
    json.BeginObject().Field("id", id_).Field("type", "message").Field("role", "assistant").Field("model", model_);
    WriteRingsideIgnored(json, ignored_, incomplete_reason);
  }
  void WriteStop(JsonWriter& json, const Response& response) const {
    const bool at_string = !response.stop_string.empty();
    json.Field("stop_reason", edits_.paused()                ? "compaction"
                              : IsFull(response)             ? "model_context_window_exceeded"
                              : IsCut(response)              ? "max_tokens"
                              : !response.call_steps.empty() ? "tool_use"
                              : at_string                    ? "stop_sequence"
                                                             : "end_turn");
    json.TextOrNull("stop_sequence", response.stop_string);
  }
  // This API does not count cached tokens as input tokens.
  void WriteUsage(JsonWriter& json, const Response& response) const {
    const AnswerUsage usage = UsageOf(response);
    json.Key("usage").BeginObject().Field("input_tokens", usage.input - usage.cached);
    json.Field("cache_creation_input_tokens", 0).Field("cache_read_input_tokens", usage.cached);
    json.Field("output_tokens", usage.output);
    if (usage.reasoning > 0) {
      json.Key("output_tokens_details").BeginObject().Field("thinking_tokens", usage.reasoning).EndObject();
    }
    if (edits_.compaction) {
      const Summary& summary = edits_.compaction->summary;
      json.Key("iterations").BeginArray();
      WriteIteration(json, "compaction", {summary.input_tokens, summary.cached_tokens, summary.output_tokens});
      WriteIteration(json, "message", usage);
      json.EndArray();
    }
    json.EndObject();
  }

  const std::string id_, model_;
  const std::vector<std::string> ignored_;
  const bool hides_reasoning_;
  const EditsReport edits_;
};

/// Applies the requested edits.
Result<EditsReport> EditHistory(const ChatService& service, const HttpRequest& request, bool counts_only,
                                MessageRequest* read) {
  EditsReport report{.asked = std::move(read->edits)};
  if (!report.asked) return report;
  const Caller caller = CallerOf(request);
  ASSIGN_OR_RETURN(report.applied, service.table.EditContext(caller, report.asked->edits, &read->turn));
  if (counts_only || !report.asked->compaction) return report;
  read->turn.compact_above = report.asked->compaction->trigger;
  ASSIGN_OR_RETURN(report.compaction,
                   CompactAbove(service.table, caller, report.asked->compaction->instructions, &read->turn));
  read->turn.warm_up = report.paused();
  return report;
}

/// An assistant's last message starts the answer.
Status ContinueIfStarted(const ChatService& service, const HttpRequest& request, MessageRequest* read) {
  if (!read->continues) return Status::Ok();
  return ContinueLastMessage(service.table, CallerOf(request), "messages", &read->turn);
}

HttpResponse CreateMessage(const ChatService& service, const HttpRequest& request) {
  const auto body = ReadAskedBody(service.table, request);
  if (!body.ok()) return ErrorAnswer(body.status());
  const SessionTableOptions& options = *body->options;
  Result<MessageRequest> read = ReadMessageRequest(body->json, options, /*counts_only=*/false);
  if (!read.ok()) return ErrorAnswer(read.status());
  Result<EditsReport> edits = EditHistory(service, request, /*counts_only=*/false, &*read);
  if (!edits.ok()) return ErrorAnswer(edits.status());
  if (const Status begun = ContinueIfStarted(service, request, &*read); !begun.ok()) return ErrorAnswer(begun);
  auto format = std::make_shared<MessageFormat>(MakeId("msg_"), ModelNameOf(read->turn.adapter, options),
                                                read->ignored.names(), read->reasoning.hidden, *std::move(edits));
  HttpResponse answer = AnswerStateless(service, request, {.prompts = {std::move(read->turn)}, .stream = read->stream},
                                        std::move(format));
  return Reported(std::move(answer), options, request, read->ignored.names());
}

HttpResponse CountTokens(const ChatService& service, const HttpRequest& request) {
  const auto body = ReadAskedBody(service.table, request);
  if (!body.ok()) return ErrorAnswer(body.status());
  const SessionTableOptions& options = *body->options;
  Result<MessageRequest> read = ReadMessageRequest(body->json, options, /*counts_only=*/true);
  if (!read.ok()) return ErrorAnswer(read.status());
  const Caller caller = CallerOf(request);
  const bool edited = read->edits.has_value();
  Result<int64_t> original = edited ? service.table.CountInput(caller, read->turn) : Result<int64_t>(0);
  if (const auto overflow = ReadContextOverflow(original.status())) original = overflow->tokens;
  if (!original.ok()) return ErrorAnswer(original.status());
  if (const auto edits = EditHistory(service, request, /*counts_only=*/true, &*read); !edits.ok())
    return ErrorAnswer(edits.status());
  if (const Status begun = ContinueIfStarted(service, request, &*read); !begun.ok()) return ErrorAnswer(begun);
  const Result<int64_t> tokens = service.table.CountInput(caller, read->turn);
  if (!tokens.ok()) return ErrorAnswer(tokens.status());
  JsonWriter json;
  json.BeginObject().Field("input_tokens", *tokens);
  if (edited) json.Key("context_management").BeginObject().Field("original_input_tokens", *original).EndObject();
  WriteRingsideIgnored(json, read->ignored.names());
  HttpResponse answer;
  answer.body = json.EndObject().Take();
  return Reported(std::move(answer), options, request, read->ignored.names());
}

/// In this API's error format, whose message clients show.
void RefuseBatches(Router& router) {
  const std::string all = "/v1/messages/batches", one = all + "/{id}";
  const std::pair<const char*, std::string> routes[] = {
      {"POST", all}, {"GET", all}, {"GET", one}, {"POST", one + "/cancel"}, {"DELETE", one}, {"GET", one + "/results"}};
  for (const auto& [method, path] : routes) {
    router.Add(method, path, [](const HttpRequest&, const Router::Parameters&) {
      return ErrorAnswer(
          Unsupported("", "batches of messages; requests that wait for nobody are responses in the background"));
    });
  }
}

}  // namespace

void AddAnthropicRoutes(Router& router, const ChatService& service) {
  using Ids = Router::Parameters;
  router.Add("POST", "/v1/messages", [service](const HttpRequest& r, const Ids&) { return CreateMessage(service, r); });
  router.Add("POST", "/v1/messages/count_tokens",
             [service](const HttpRequest& r, const Ids&) { return CountTokens(service, r); });
  RefuseBatches(router);
}

std::vector<RequestKind> AnthropicKinds() {
  const std::vector<FieldInfo> fields = MessageTable().Describe();
  return {{"POST /v1/messages", fields}, {"POST /v1/messages/count_tokens", fields}};
}

}  // namespace ringside
