#include "ws/content/response_request.h"

#include <algorithm>
#include <map>

#include "base/limits.h"
#include "session/ids.h"
#include "ws/content/answer_format_reader.h"
#include "ws/content/item_fields.h"
#include "ws/content/request_digest.h"
#include "ws/content/response_objects.h"
#include "ws/content/tool_fields.h"
#include "ws/fields/common_fields.h"
#include "ws/fields/field_readers.h"
#include "ws/fields/reasoning_fields.h"
#include "ws/fields/sampling_fields.h"
#include "ws/fields/timeline_key.h"
#include "ws/json/json_text.h"
#include "ws/json/json_writer.h"

namespace ringside {
namespace {

constexpr int64_t kDefaultCompactThreshold = 200'000;  // tokens

using Value = const JsonValue&;
using Param = const std::string&;
using Context = const FieldContext&;

struct CreateRequest {
  TurnSpec turn;
  ReasoningRequest reasoning;
  Metadata metadata;
  std::string client_request_id, truncation = "disabled";
  std::string tool_choice = "\"auto\"", parallel = "true", tools = "[]", format;  // JSON, as the response repeats them
  std::map<std::string, std::string, std::less<>> labels;
  HttpDelivery delivery;
  bool generate = true, wants_logprobs = false, prewarm = false;
  int64_t top_logprobs = 0;
};

std::string ChoiceFields(const std::string& tool_choice, const std::string& parallel) {
  JsonWriter json;
  json.Key("tool_choice").Raw(tool_choice).Key("parallel_tool_calls").Raw(parallel);
  return json.Take();
}

Status ReadInput(Value value, Param param, Context context, TurnSpec* turn) {
  if (value.is_string()) {
    turn->input = {{ChatRole::kUser, value.string()}};
    return Status::Ok();
  }
  if (!value.is_array()) return WrongType(value, param, "a string or an array of items");
  return ReadItems(value, param, context.ignored, &turn->input);
}

Status EmptyId(Param param) { return InvalidArgument("An id is never empty.", param, "invalid_value"); }

Status ReadPrevious(Value value, Param param, Context, TurnSpec* turn) {
  RETURN_IF_ERROR(ReadString(value, param, &turn->previous_response_id));
  return turn->previous_response_id.empty() ? EmptyId(param) : Status::Ok();
}

Status ReadConversation(Value value, Param param, Context context, TurnSpec* turn) {
  const JsonValue* id = value.is_object() ? value.Find("id") : &value;
  if (id == nullptr || !id->is_string()) return WrongType(value, param, "an id or an object with an id");
  for (const auto& [key, field] : value.object()) {
    if (key != "id" && !field.is_null()) RETURN_IF_ERROR(context.ignored->Unknown(param + "." + key));
  }
  turn->conversation = id->string();
  return turn->conversation.empty() ? EmptyId(param) : Status::Ok();
}

Status ReadWindow(Value value, Param param, Context context, TurnSpec* turn) {
  if (!value.is_object()) return WrongType(value, param, "an object");
  RETURN_IF_ERROR(WindowTable().Read(value, context, &turn->window, param + "."));
  std::optional<std::string> known;
  return ReadModelName(turn->window.adapter, param + ".adapter", context.options, &known);
}

/// The event's id names the request unless its metadata do.
Status ReadEventId(Value value, Param param, Context, CreateRequest* request) {
  std::string id;
  RETURN_IF_ERROR(ReadString(value, param, &id));
  if (id.size() > static_cast<size_t>(limits::kMaxMetadataValueBytes)) {
    return InvalidArgument("The id is too long.", param, "string_above_max_length");
  }
  if (request->client_request_id.empty()) request->client_request_id = std::move(id);
  return Status::Ok();
}

Status ReadRequestMetadata(Value value, Param param, Context context, CreateRequest* request) {
  RETURN_IF_ERROR(ReadAnswerMetadata(value, param, context.ignored, &request->metadata));
  for (const auto& [key, text] : request->metadata) {
    if (key == "client_request_id") request->client_request_id = text;
  }
  return Status::Ok();
}

Status ReadInclude(Value value, Param param, Context context, CreateRequest* request) {
  // Parts of items that no answer here has, and one that reasoning always has. Some clients always request them.
  static constexpr std::string_view kOfOthers[] = {
      "reasoning.encrypted_content",          "file_search_call.results",      "web_search_call.results",
      "web_search_call.action.sources",       "message.input_image.image_url", "code_interpreter_call.outputs",
      "computer_call_output.output.image_url"};
  if (!value.is_array()) return context.ignored->Hint(param, "such an 'include'");
  for (const JsonValue& entry : value.array()) {
    if (entry.string() == "message.output_text.logprobs") {
      request->wants_logprobs = true;
    } else if (std::ranges::find(kOfOthers, entry.string()) == std::end(kOfOthers)) {
      RETURN_IF_ERROR(context.ignored->Hint(param, "including '" + entry.string().substr(0, 256) + "'"));
    }
  }
  return Status::Ok();
}

/// The limit applies to built-in tools, which this server lacks.
Status CheckToolCalls(Value value, Param param, Context, void*) {
  int64_t count = 0;
  return ReadInteger(value, param, 0, INT64_MAX, &count);
}

Status CheckString(Value value, Param param, Context, void*) {
  std::string text;
  return ReadString(value, param, &text);
}

/// History slides out of the window in both modes; new input longer than the window is accepted with "auto" only.
Status ReadTruncation(Value value, Param param, Context, CreateRequest* request) {
  RETURN_IF_ERROR(ReadString(value, param, &request->truncation));
  request->turn.truncates = request->truncation == "auto";
  if (request->truncation == "auto" || request->truncation == "disabled") return Status::Ok();
  return InvalidArgument("Supported values are: 'auto' and 'disabled'.", param, "invalid_value");
}

/// [{"type": "compaction", "compact_threshold"}]; another type is a hint.
Status ReadContextManagement(Value value, Param param, Context context, CreateRequest* request) {
  if (!value.is_array()) return WrongType(value, param, "an array");
  std::optional<int64_t>& threshold = request->turn.compact_above;
  for (size_t i = 0; i < value.array().size(); ++i) {
    const JsonValue& entry = value.array()[i];
    const std::string at = param + "[" + std::to_string(i) + "]";
    if (!entry.is_object()) return WrongType(entry, at, "an object");
    const JsonValue *type = entry.Find("type"), *given = entry.Find("compact_threshold");
    if (type == nullptr) return MissingParameter(at + ".type");
    if (type->string() != "compaction") {
      RETURN_IF_ERROR(context.ignored->Hint(at, "this context management"));
      continue;
    }
    if (threshold) return InvalidArgument("There is a compaction already.", at + ".type", "invalid_value");
    for (const auto& [key, field] : entry.object()) {
      if (key != "type" && key != "compact_threshold") RETURN_IF_ERROR(context.ignored->Unknown(at + "." + key));
    }
    threshold = kDefaultCompactThreshold;
    if (given != nullptr) RETURN_IF_ERROR(ReadInteger(*given, at + ".compact_threshold", 1, INT64_MAX, &*threshold));
  }
  return Status::Ok();
}

/// A label that the response repeats; other types cannot be repeated.
Status ReadLabel(Value value, Param param, Context context, CreateRequest* request) {
  if (!value.is_string()) return context.ignored->Hint(param, "such a '" + param + "'");
  if (value.string().size() > static_cast<size_t>(limits::kMaxMetadataValueBytes)) {
    return context.ignored->Hint(param, "a '" + param + "' of more than 512 bytes");
  }
  request->labels[param] = value.string();
  if (param == "prompt_cache_key" || param == "session_id") NoteTimelineKey(param, value.string(), &request->turn);
  return Status::Ok();
}

Status ReadFormat(Value value, Param param, Context context, TurnSpec* turn) {
  return ReadAnswerFormat(value, param, FormatShape::kFlat, context.ignored, &turn->format.emplace());
}

/// A field whose value the response repeats as `json_of` it.
Field<CreateRequest> Echoed(const Field<TurnSpec>& row, std::string CreateRequest::*echo,
                            std::string (*json_of)(const JsonValue&)) {
  const auto read = [read = row.read, echo, json_of](Value value, Param param, Context context,
                                                     CreateRequest* request) {
    RETURN_IF_ERROR(read(value, param, context, &request->turn));
    request->*echo = json_of(value);
    return Status::Ok();
  };
  return {row.info.name, row.info.type, read, row.info.policy, row.info.limits};
}

std::string JsonOf(const JsonValue& value) {
  JsonWriter json;
  WriteJson(json, value);
  return json.Take();
}

constexpr bool kStrictTools = true;  // default of `strict`

Fields<CreateRequest> EchoedRows() {
  static const FieldTable<CreateRequest> text(
      {Echoed({"format", FieldType::kObject, ReadFormat}, &CreateRequest::format, JsonOf),
       {"verbosity", Hint{{"medium"}, "a verbosity"}}});
  Fields<CreateRequest> rows = {{"text", text}};
  for (const Field<TurnSpec>& row : ToolRows(ToolShape::kFlat, kStrictTools)) {
    if (row.info.name == "tools") {
      const auto tools_echo = [](const JsonValue& value) { return ToolsEcho(value, kStrictTools); };
      rows.push_back(Echoed(row, &CreateRequest::tools, tools_echo));
    } else {
      rows.push_back(
          Echoed(row, row.info.name == "tool_choice" ? &CreateRequest::tool_choice : &CreateRequest::parallel, JsonOf));
    }
  }
  return rows;
}

/// Fields that depend on the transport, HTTP or WebSocket.
Fields<CreateRequest> TransportRows(bool http) {
  const auto read_background = [http](Value value, Param param, Context, CreateRequest* request) {
    RETURN_IF_ERROR(ReadBool(value, param, &request->turn.background));
    const bool refused = request->turn.background && !http;
    return refused ? Unsupported(param, "'background' over a WebSocket") : Status::Ok();
  };
  const auto read_stream = [](Value value, Param param, Context, CreateRequest* request) {
    return ReadBool(value, param, &request->delivery.stream);
  };
  Fields<CreateRequest> rows = {{"background", FieldType::kBool, read_background},
                                {"stream", FieldType::kBool, read_stream}};
  // Names the lane, which the socket has already read.
  http ? rows.emplace_back("stream_id", Hint{.what = "lanes over HTTP", .even_empty = true})
       : rows.emplace_back("stream_id", Silent{});
  return rows;
}

Fields<CreateRequest> OwnRows() {
  static const FieldTable<CreateRequest> cache_options(
      Join(Fields<CreateRequest>{{"prewarm", &CreateRequest::prewarm}},
           Fields<void>{{"mode", FieldType::kString, CheckString}, {"ttl", FieldType::kString, CheckString}}));
  constexpr FieldPolicy kLenient = FieldPolicy::kLenient;
  return {
      {"event_id", FieldType::kString, ReadEventId},
      {"generate", &CreateRequest::generate},
      {"metadata", FieldType::kObject, ReadRequestMetadata},
      {"include", FieldType::kArray, ReadInclude, kLenient},
      {"truncation", FieldType::kString, ReadTruncation, FieldPolicy::kRead, "auto, disabled"},
      {"prompt_cache_options", cache_options},
      {"top_logprobs", &CreateRequest::top_logprobs, Range{0, limits::kMaxTopLogprobs}},
      {"max_tool_calls", FieldType::kInteger, CheckToolCalls, FieldPolicy::kRead, "at least 0"},
      {"user", FieldType::kString, ReadLabel, kLenient, "up to 512 bytes"},
      {"safety_identifier", FieldType::kString, ReadLabel, kLenient, "up to 512 bytes"},
      {"prompt_cache_key", FieldType::kString, ReadLabel, kLenient, "up to 512 bytes"},
      {"session_id", FieldType::kString, ReadLabel, kLenient, "up to 512 bytes"},
      {"type", Silent{}},
      {"stream_options", Silent{}},
      {"prompt", Refuse{}},
      {"context_management", FieldType::kArray, ReadContextManagement},
      {"moderation", Hint{}},
      {"image", Hint{}},
      {"access_programs", Hint{}},
      {"service_tier", Hint{{"auto", "default"}, "this 'service_tier'"}},
      {"prompt_cache_retention", Hint{{"in_memory", "24h"}, "this 'prompt_cache_retention'"}},
  };
}

FieldTable<CreateRequest> MakeTable(bool http) {
  const Fields<TurnSpec> turn = Join(
      Fields<TurnSpec>{
          ModelField(),
          {"input", FieldType::kString | FieldType::kArray, ReadInput},
          {"instructions", &TurnSpec::instructions},
          {"previous_response_id", FieldType::kString, ReadPrevious},
          {"conversation", FieldType::kString | FieldType::kObject, ReadConversation},
          {"ringside", FieldType::kObject, ReadWindow, FieldPolicy::kRead, WindowTable()},
          {"store", &TurnSpec::store},
          OutputTokensField("max_output_tokens"),
      },
      SamplingFields());
  return FieldTable<CreateRequest>(Join(OwnRows(), TransportRows(http), EchoedRows(), In(&CreateRequest::turn, turn),
                                        In(&CreateRequest::reasoning, ReasoningFields()), ForeignFields()));
}

const FieldTable<CreateRequest>& CreateTable(bool http) {
  static const FieldTable<CreateRequest> socket = MakeTable(false), over_http = MakeTable(true);
  return http ? over_http : socket;
}

/// Sets TurnSpec::echo: the request's fields as the response repeats them.
void WriteEcho(const std::vector<std::string>& ignored, CreateRequest* request) {
  TurnSpec& turn = request->turn;
  const ReasoningSpec& reasoning = turn.reasoning;
  const bool off = reasoning.mode == ReasoningSpec::Mode::kOff;
  const bool reasons = off || !reasoning.effort.empty() || !request->reasoning.summary.empty();
  JsonWriter json;
  reasons ? json.Raw(ReasoningEcho(off ? "none" : reasoning.effort, request->reasoning.summary))
          : json.Key("reasoning").Null();
  json.Key("instructions");
  turn.instructions ? json.Value(*turn.instructions) : json.Null();
  json.Key("max_output_tokens");
  turn.max_output_tokens ? json.Value(*turn.max_output_tokens) : json.Null();
  json.Key("metadata").BeginObject();
  for (const auto& [key, text] : request->metadata) json.Field(key, text);
  json.EndObject();
  json.Field("temperature", turn.sampling.temperature).Field("top_p", turn.sampling.top_p);
  json.Field("top_logprobs", request->top_logprobs).Field("truncation", request->truncation);
  json.Key("tools").Raw(request->tools).Field("background", turn.background).Field("service_tier", "default");
  for (const char* label : {"user", "safety_identifier", "prompt_cache_key"}) {
    const auto at = request->labels.find(label);
    json.TextOrNull(label, at == request->labels.end() ? "" : at->second);
  }
  json.Field("store", turn.store);
  // A continued answer takes fields missing in the request from the cut answer.
  std::string choice;
  if (turn.tool_choice) choice = ChoiceFields(request->tool_choice, request->parallel);
  turn.echo = [fields = json.Take(), choice, format = request->format, ignored](const AnswerForm& form) {
    JsonWriter all;
    all.Raw(fields);
    all.Raw(choice.empty() ? ChoiceFields(ToolChoiceJson(form.choice), form.choice.several ? "true" : "false")
                           : choice);
    all.Key("text").BeginObject().Key("format").Raw(format.empty() ? FormatObject(form.format) : format).EndObject();
    return WithIgnored(all.Take(), ignored);
  };
}

/// ERRORS: mutually exclusive fields.
Status CheckTogether(const TurnSpec& turn) {
  if (!turn.conversation.empty() && !turn.previous_response_id.empty()) {
    return InvalidArgument("'conversation' and 'previous_response_id' cannot be given together.",
                           "previous_response_id", "mutually_exclusive_parameters");
  }
  const bool continues = !turn.conversation.empty() || !turn.previous_response_id.empty();
  const WindowOverrides& window = turn.window;
  if (continues && (window.memory_len || window.session_len || window.eviction)) {
    return InvalidArgument("The window of a conversation is chosen when it begins.", "ringside", "invalid_value");
  }
  if (!window.adapter.empty() && !turn.adapter.value_or("").empty() && turn.adapter != window.adapter) {
    return InvalidArgument("'model' and 'ringside.adapter' name different adapters.", "ringside.adapter",
                           "mutually_exclusive_parameters");
  }
  if (!window.model.empty() && !turn.model.empty() && turn.model != window.model) {
    return InvalidArgument("'model' and 'ringside.model' name different models.", "ringside.model",
                           "mutually_exclusive_parameters");
  }
  if (turn.background && !turn.store) {
    return InvalidArgument("An answer in the background is stored: whoever asked for it fetches it.", "background",
                           "invalid_value");
  }
  return Status::Ok();
}

}  // namespace

Result<TurnSpec> ReadCreate(const JsonValue& body, const SessionTableOptions& options, IgnoredFields* ignored,
                            HttpDelivery* http) {
  CreateRequest request;
  TurnSpec& turn = request.turn;
  turn.sampling = options.sampling;
  turn.sampling.seed = RandomBits();
  RETURN_IF_ERROR(CreateTable(http != nullptr).Read(body, {options, ignored}, &request));
  RETURN_IF_ERROR(CheckTogether(turn));
  if (!turn.window.adapter.empty()) turn.adapter = turn.window.adapter;
  if (turn.model.empty()) turn.model = turn.window.model;
  turn.carries_history = turn.conversation.empty() && turn.previous_response_id.empty();
  turn.offers_truncation = true;
  turn.warm_up = request.prewarm || !request.generate;
  if (request.wants_logprobs || request.top_logprobs > 0) turn.sampling.logprobs = request.top_logprobs;
  RETURN_IF_ERROR(CheckBeamFields(body, &turn));
  ClampOutput(options, "max_output_tokens", &turn, ignored);
  RETURN_IF_ERROR(SetReasoning(request.reasoning, options, ignored, &turn));
  WriteEcho(ignored->names(), &request);
  if (!request.client_request_id.empty()) turn.request_key = request.client_request_id + '\n' + RequestDigest(body);
  if (http != nullptr) *http = request.delivery;
  return std::move(turn);
}

RequestKind CreateKind(bool http) {
  return {http ? "POST /v1/responses" : "response.create", CreateTable(http).Describe()};
}

}  // namespace ringside
