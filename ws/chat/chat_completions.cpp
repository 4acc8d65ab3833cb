#include "ws/chat/chat_completions.h"

#include "base/clock.h"
#include "base/limits.h"
#include "session/ids.h"
#include "ws/chat/completion_fields.h"
#include "ws/chat/completion_format.h"
#include "ws/chat/message_fields.h"
#include "ws/chat/prompts.h"
#include "ws/content/asked_model.h"
#include "ws/content/response_objects.h"
#include "ws/content/tool_fields.h"
#include "ws/content/tool_names.h"
#include "ws/fields/common_fields.h"
#include "ws/fields/field_readers.h"
#include "ws/fields/ignored_report.h"
#include "ws/fields/sampling_fields.h"

namespace ringside {
namespace {

struct ChatRequest : CompletionFields {
  bool continues = false;  // the last message starts the answer
  bool opens = true;       // the prompt ends with the start of an answer
  std::string length_field = "max_tokens";
  bool logprobs = false;
  int64_t top_logprobs = 0;
  bool has_messages = false;
};

Status ReadChatMessages(const JsonValue& value, const std::string& param, const FieldContext& context,
                        ChatRequest* request) {
  request->has_messages = true;
  return ReadMessages(value, param, ChatMessageRules(), 1, context.ignored, &request->turn.input);
}

/// Parses the answer's limit under either name.
Status ReadLength(const JsonValue& value, const std::string& param, const FieldContext& context, ChatRequest* request) {
  static const Field<TurnSpec> row = OutputTokensField("max_tokens");
  request->length_field = param;
  return row.read(value, param, context, &request->turn);
}

Status CheckMetadata(const JsonValue& value, const std::string& param, const FieldContext& context, void*) {
  Metadata unused;
  return ReadAnswerMetadata(value, param, context.ignored, &unused);
}

const FieldTable<ChatRequest>& ChatTable() {
  static const FieldTable<ChatRequest> table(Join(
      Fields<ChatRequest>{
          {"messages", FieldType::kArray, ReadChatMessages},
          {"max_tokens", FieldType::kInteger, ReadLength, FieldPolicy::kClamp, "at least 1, or -1"},
          {"max_completion_tokens", AliasOf{"max_tokens"}},
          {"logprobs", &ChatRequest::logprobs},
          {"top_logprobs", &ChatRequest::top_logprobs, Range{0, limits::kMaxTopLogprobs}},
          {"continue_final_message", &ChatRequest::continues},
          {"add_generation_prompt", &ChatRequest::opens},
          {"metadata", FieldType::kObject, CheckMetadata},
          TextOnlyField("modalities", "modalities other than text"),
          {"function_call", Refuse{{"none", "auto"}}},  // selects among `functions`
          {"web_search_options", Hint{.what = "searching the web", .even_empty = true}},
          {"verbosity", Hint{{"medium"}}},
          {"prompt_cache_retention", Hint{{"in_memory", "24h"}}},
          {"prompt_cache_options", Hint{}},
          {"prediction", Hint{}},
          {"audio", Hint{}},  // voice settings; `modalities` selects audio
          {"moderation", Hint{}},
      },
      In(&ChatRequest::turn,
         Join(Fields<TurnSpec>{{"store", &TurnSpec::store}}, ToolRows(ToolShape::kNested, /*strict_default=*/false))),
      In(&ChatRequest::reasoning, ReasoningFields()), CompletionRows(), ForeignFields()));
  return table;
}

Result<ChatRequest> ReadChatRequest(const JsonValue& body, const SessionTableOptions& options) {
  ChatRequest out;
  out.ignored = IgnoredFields(options.strict_requests);
  out.turn = StatelessTurn(options);
  out.turn.keeps_to_template = true;
  RETURN_IF_ERROR(ChatTable().Read(body, {options, &out.ignored}, &out));
  ClampOutput(options, out.length_field, &out.turn, &out.ignored);
  RETURN_IF_ERROR(ChooseGuided(&out));
  if (!out.has_messages) return MissingParameter("messages");
  const NewItem& last = out.turn.input.back();
  if (out.continues && (last.role != ChatRole::kAssistant || last.calls_at >= 0)) {
    return InvalidArgument("The last message must be an assistant's, without tool calls.", "continue_final_message",
                           "invalid_value");
  }
  if (!out.continues && !out.opens) return Unsupported("add_generation_prompt", "an answer that does not begin");
  if (out.top_logprobs > 0 && !out.logprobs) {
    return InvalidArgument("'top_logprobs' needs 'logprobs'.", "top_logprobs", "invalid_value");
  }
  if (out.logprobs) out.turn.sampling.logprobs = out.top_logprobs;
  RETURN_IF_ERROR(CheckBeamFields(body, &out.turn));
  RETURN_IF_ERROR(SetReasoning(out.reasoning, options, &out.ignored, &out.turn));
  return out;
}

class ChatFormat final : public CompletionFormat {
 public:
  ChatFormat(const Tokenizer& tokenizer, Frame frame, bool logprobs, bool shows_reasoning)
      : CompletionFormat(tokenizer, std::move(frame)), logprobs_(logprobs), shows_reasoning_(shows_reasoning) {}

  std::string Begin(size_t choice, const Response& response, bool has_text) const override {
    const std::string content = has_text ? R"("")" : "null";
    JsonWriter prompt;
    if (choice == 0) WritePromptIds(prompt, response);
    return Delta(choice, R"({"role":"assistant","content":)" + content + '}', prompt.text(),
                 AnswerUsage{.input = response.input_tokens});
  }
  bool streams_reasoning() const override { return shows_reasoning_; }
  std::string ReasoningPiece(const ChoicePiece& piece) const override {
    JsonWriter json;
    WriteReasoning(json.Key("delta").BeginObject(), piece.text);
    json.EndObject().Key("logprobs").Null().Key("finish_reason").Null();
    WriteIds(json, piece.tokens);
    return Chunk(piece.choice, json.text(), {}, UsageSoFar(piece));
  }
  // The input of a custom tool is sent at once.
  bool streams_arguments(const TurnEvent& event) const override { return !ClientToolOf(event.name).custom; }
  std::string Call(size_t choice, const TurnEvent& event) const override {
    const ClientTool tool = ClientToolOf(event.name);
    const bool begins = event.kind == TurnEvent::Kind::kCall, ends = event.kind == TurnEvent::Kind::kCallEnded;
    if (ends && !tool.custom) return "";
    JsonWriter json;
    json.BeginObject().Key("tool_calls").BeginArray().BeginObject().Field("index", event.call);
    const std::string id = begins ? CallId(*event.response, event.call) : "";
    WriteCall(json, id, tool, ends ? CustomInput(event.text) : event.text);
    return Delta(choice, json.EndObject().EndArray().EndObject().text());
  }
  std::string Piece(const ChoicePiece& piece) const override {
    JsonWriter json;
    json.Key("delta").BeginObject().Field("content", piece.text).EndObject();
    WriteLogprobs(json, piece.tokens);
    json.Key("finish_reason").Null();
    WriteIds(json, piece.tokens);
    return Chunk(piece.choice, json.text(), {}, UsageSoFar(piece));
  }
  std::string Rest(size_t choice, std::span<const TokenId> ids) const override {
    JsonWriter json;
    json.Key("delta").BeginObject().EndObject().Key("logprobs").Null().Key("finish_reason").Null();
    WriteIds(json, ids);
    return Chunk(choice, json.text());
  }
  std::string End(size_t choice, const Response& response) const override {
    JsonWriter json;
    json.Key("delta").BeginObject().EndObject().Key("logprobs").Null();
    WriteFinish(json, response);
    return LastChunk(choice, json.text(), response);
  }

 protected:
  void WriteWholeAnswer(JsonWriter& json, const EndedChoices& choices) const override {
    WritePromptIds(json, *choices[0]);
  }
  void WriteWhole(JsonWriter& json, size_t, const Response& response) const override {
    json.Key("message").BeginObject().Field("role", "assistant").Key("content");
    // Clients expect null only together with tool calls.
    response.opened || response.call_steps.empty() ? json.Value(response.message()) : json.Null();
    if (shows_reasoning_ && !response.reasoning.empty()) WriteReasoning(json, response.reasoning);
    json.Key("refusal").Null().Key("annotations").BeginArray().EndArray();
    const std::vector<ToolCall> calls = response.tool_calls();
    if (!calls.empty()) {
      json.Key("tool_calls").BeginArray();
      for (size_t i = 0; i < calls.size(); ++i) {
        const ClientTool tool = ClientToolOf(calls[i].name);
        json.BeginObject();
        WriteCall(json, CallId(response, i), tool, tool.custom ? CustomInput(calls[i].arguments) : calls[i].arguments);
        json.EndObject();
      }
      json.EndArray();
    }
    json.EndObject();
    WriteLogprobs(json, response.tokens);
  }

 private:
  /// Under both names that clients use.
  static void WriteReasoning(JsonWriter& json, std::string_view text) {
    json.Field("reasoning_content", text).Field("reasoning", text);
  }
  /// The members of a call; without an id, those of a later delta.
  static void WriteCall(JsonWriter& json, const std::string& id, const ClientTool& tool, std::string_view text) {
    const char* kind = tool.custom ? "custom" : "function";
    if (!id.empty()) json.Field("id", id).Field("type", kind);
    json.Key(kind).BeginObject();
    if (!id.empty()) json.Field("name", tool.name);
    json.Field(tool.custom ? "input" : "arguments", text).EndObject();
  }
  static std::string CallId(const Response& response, size_t call) {
    return ToolCallId("call_", response.item_id, call);
  }
  std::string Delta(size_t choice, const std::string& delta, std::string_view of_answer = {},
                    const std::optional<AnswerUsage>& so_far = std::nullopt) const {
    return Chunk(choice, "\"delta\":" + delta + R"(,"logprobs":null,"finish_reason":null)", of_answer, so_far);
  }
  void WriteLogprobs(JsonWriter& json, std::span<const OutputToken> tokens) const {
    json.Key("logprobs");
    if (!logprobs_) {
      json.Null();
      return;
    }
    json.BeginObject().Key("content").Raw(Logprobs(tokens, tokenizer_)).Key("refusal").Null().EndObject();
  }

  const bool logprobs_, shows_reasoning_;
};

}  // namespace

RequestKind ChatCompletionKind() { return {"POST /v1/chat/completions", ChatTable().Describe()}; }

HttpResponse CreateChatCompletion(const ChatService& service, const HttpRequest& request) {
  const auto body = ReadAskedBody(service.table, request);
  if (!body.ok()) return ErrorResponse(body.status());
  const SessionTableOptions& options = *body->options;
  Result<ChatRequest> read = ReadChatRequest(body->json, options);
  if (!read.ok()) return ErrorResponse(read.status());
  auto format = std::make_shared<ChatFormat>(
      *options.tokenizer,
      CompletionFormat::Frame{.id = MakeId("chatcmpl-"),
                              .model = ModelNameOf(read->turn.adapter, options),
                              .object = "chat.completion",
                              .chunk_object = "chat.completion.chunk",
                              .created = static_cast<int64_t>(SystemClock::Instance().WallSeconds()),
                              .choices = read->choices,
                              .include_usage = read->include_usage,
                              .continuous_usage = read->continuous_usage,
                              .token_ids = read->turn.token_ids,
                              .ignored = read->ignored.names()},
      read->logprobs, !read->reasoning.hidden);
  if (read->continues) {
    const Status begun = ContinueLastMessage(service.table, CallerOf(request), "messages", &read->turn);
    if (!begun.ok()) return ErrorResponse(begun);
  }
  // Chunk usage requires ids with the pieces.
  if (read->stream && read->continuous_usage) read->turn.token_ids = true;
  StatelessRequest answers{.prompts = {std::move(read->turn)}, .choices = read->choices, .stream = read->stream};
  HttpResponse answer = AnswerStateless(service, request, std::move(answers), std::move(format));
  return Reported(std::move(answer), options, request, read->ignored.names());
}

}  // namespace ringside
