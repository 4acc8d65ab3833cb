#include "ws/openai/responses/responses_request.h"

#include <map>

#include "base/limits.h"
#include "session/ids.h"
#include "ws/fields/reasoning_fields.h"
#include "ws/fields/timeline_key.h"
#include "ws/json/json_text.h"
#include "ws/json/json_writer.h"
#include "ws/openai/answer_format_reader.h"
#include "ws/openai/request_digest.h"
#include "ws/openai/responses/responses_fields.h"
#include "ws/openai/responses/responses_objects.h"
#include "ws/openai/responses/responses_sampling.h"
#include "ws/openai/tool_fields.h"

namespace ringside {
namespace {

constexpr int64_t kDefaultCompactThreshold = 200'000;  // tokens

std::string ChoiceFields(const std::string& tool_choice, bool parallel_tool_calls) {
  JsonWriter json;
  json.Key("tool_choice").Raw(tool_choice).Field("parallel_tool_calls", parallel_tool_calls);
  return json.Take();
}

class CreateReader {
 public:
  CreateReader(const SessionTableOptions& options, IgnoredFields* ignored, HttpDelivery* http)
      : options_(options), ignored_(ignored), http_(http) {
    spec_.sampling = options.sampling;
  }
  Result<TurnSpec> Read(const JsonValue& body);

  using Handler = Status (CreateReader::*)(const JsonValue&, const std::string&);
  static const std::map<std::string, Handler, std::less<>>& Handlers();

 private:
  // What is asked.
  Status Model(const JsonValue& value, const std::string& param);
  Status Input(const JsonValue& value, const std::string& param);
  Status Instructions(const JsonValue& value, const std::string& param);
  Status PreviousResponse(const JsonValue& value, const std::string& param);
  Status Conversation(const JsonValue& value, const std::string& param);
  Status Window(const JsonValue& value, const std::string& param);
  Status Flag(const JsonValue& value, const std::string& param);
  Status RequestMetadata(const JsonValue& value, const std::string& param);
  Status EventId(const JsonValue& value, const std::string& param);
  Status Include(const JsonValue& value, const std::string& param);
  Status TopLogprobs(const JsonValue& value, const std::string& param);
  Status MaxToolCalls(const JsonValue& value, const std::string& param);
  Status Truncation(const JsonValue& value, const std::string& param);
  Status CacheOptions(const JsonValue& value, const std::string& param);
  Status ContextManagement(const JsonValue& value, const std::string& param);
  // What is known and accepted at its harmless value.
  Status WithoutEffect(const JsonValue&, const std::string&) { return Status::Ok(); }
  Status Label(const JsonValue& value, const std::string& param);
  Status Empty(const JsonValue& value, const std::string& param);
  Status Hint(const JsonValue& value, const std::string& param);
  Status Background(const JsonValue& value, const std::string& param);
  Status StreamId(const JsonValue& value, const std::string& param);
  Status OneOf(const JsonValue& value, const std::string& param);
  Status Text(const JsonValue& value, const std::string& param);
  Status Tools(const JsonValue& value, const std::string& param);
  Status Choice(const JsonValue& value, const std::string& param);

  void WriteEcho();

  const SessionTableOptions& options_;
  IgnoredFields* const ignored_;
  HttpDelivery* const http_;  // null = a WebSocket
  TurnSpec spec_;
  ReasoningRequest reasoning_;
  Metadata metadata_;
  std::string client_request_id_, truncation_ = "disabled", tool_choice_ = "\"auto\"", tools_ = "[]", format_;
  std::map<std::string, std::string, std::less<>> labels_;
  bool generate_ = true, wants_logprobs_ = false, parallel_tool_calls_ = true, has_seed_ = false, prewarm_ = false;
  int64_t top_logprobs_ = 0;
};

const std::map<std::string, CreateReader::Handler, std::less<>>& CreateReader::Handlers() {
  using R = CreateReader;
  static const std::map<std::string, Handler, std::less<>> handlers = {
      {"type", &R::WithoutEffect},
      {"stream_id", &R::StreamId},
      {"event_id", &R::EventId},
      {"model", &R::Model},
      {"input", &R::Input},
      {"instructions", &R::Instructions},
      {"previous_response_id", &R::PreviousResponse},
      {"conversation", &R::Conversation},
      {"ringside", &R::Window},
      {"store", &R::Flag},
      {"generate", &R::Flag},
      {"parallel_tool_calls", &R::Flag},
      {"stream", &R::Flag},
      {"metadata", &R::RequestMetadata},
      {"include", &R::Include},
      {"truncation", &R::Truncation},
      {"prompt_cache_options", &R::CacheOptions},
      {"top_logprobs", &R::TopLogprobs},
      {"max_tool_calls", &R::MaxToolCalls},
      {"user", &R::Label},
      {"safety_identifier", &R::Label},
      {"prompt_cache_key", &R::Label},
      {"session_id", &R::Label},
      {"tools", &R::Tools},
      {"context_management", &R::ContextManagement},
      {"moderation", &R::Hint},
      {"image", &R::Hint},
      {"access_programs", &R::Hint},
      {"prompt", &R::Empty},
      {"background", &R::Background},
      {"service_tier", &R::OneOf},
      {"tool_choice", &R::Choice},
      {"prompt_cache_retention", &R::OneOf},
      {"stream_options", &R::WithoutEffect},
      {"text", &R::Text},
  };
  return handlers;
}

Result<TurnSpec> CreateReader::Read(const JsonValue& body) {
  for (const auto& [key, value] : body.object()) {
    if (value.is_null()) continue;
    const auto handler = Handlers().find(key);
    if (IsSamplingField(key)) {
      has_seed_ = has_seed_ || key == "seed";
      RETURN_IF_ERROR(ReadSamplingField(value, key, &spec_));
    } else if (IsReasoningField(key)) {
      RETURN_IF_ERROR(ReadReasoningField(value, key, key, ignored_, &reasoning_));
    } else if (handler == Handlers().end()) {
      RETURN_IF_ERROR(ignored_->UnknownOfRequest(value, key));
    } else {
      RETURN_IF_ERROR((this->*handler->second)(value, key));
    }
  }
  if (!spec_.conversation.empty() && !spec_.previous_response_id.empty()) {
    return InvalidArgument("'conversation' and 'previous_response_id' cannot be given together.",
                           "previous_response_id", "mutually_exclusive_parameters");
  }
  const bool continues = !spec_.conversation.empty() || !spec_.previous_response_id.empty();
  const WindowOverrides& window = spec_.window;
  if (continues && (window.memory_len || window.session_len || window.eviction)) {
    return InvalidArgument("The window of a conversation is chosen when it begins.", "ringside", "invalid_value");
  }
  if (!window.adapter.empty()) {
    if (spec_.adapter.value_or("").empty()) spec_.adapter = window.adapter;
    if (spec_.adapter != window.adapter) {
      return InvalidArgument("'model' and 'ringside.adapter' name different adapters.", "ringside.adapter",
                             "mutually_exclusive_parameters");
    }
  }
  if (spec_.background && !spec_.store) {
    return InvalidArgument("An answer in the background is stored: whoever asked for it fetches it.", "background",
                           "invalid_value");
  }
  spec_.carries_history = !continues;
  spec_.offers_truncation = true;
  spec_.warm_up = prewarm_ || !generate_;
  if (wants_logprobs_ || top_logprobs_ > 0) spec_.sampling.logprobs = top_logprobs_;
  if (!has_seed_) spec_.sampling.seed = RandomBits();
  RETURN_IF_ERROR(CheckBeamFields(body, &spec_));
  ClampOutput(options_, "max_output_tokens", &spec_, ignored_);
  RETURN_IF_ERROR(SetReasoning(reasoning_, options_, ignored_, &spec_));
  WriteEcho();
  if (!client_request_id_.empty()) spec_.request_key = client_request_id_ + '\n' + RequestDigest(body);
  return std::move(spec_);
}

Status CreateReader::Model(const JsonValue& value, const std::string& param) {
  std::string name;
  RETURN_IF_ERROR(ReadString(value, param, &name));
  return ReadModelName(name, param, options_, &spec_.adapter);
}

Status CreateReader::Input(const JsonValue& value, const std::string& param) {
  if (value.is_string()) {
    spec_.input = {{ChatRole::kUser, value.string()}};
    return Status::Ok();
  }
  if (!value.is_array()) return WrongType(value, param, "a string or an array of items");
  return ReadItems(value, param, ignored_, &spec_.input);
}

Status CreateReader::Instructions(const JsonValue& value, const std::string& param) {
  std::string text;
  RETURN_IF_ERROR(ReadString(value, param, &text));
  spec_.instructions = std::move(text);
  return Status::Ok();
}

Status CreateReader::PreviousResponse(const JsonValue& value, const std::string& param) {
  RETURN_IF_ERROR(ReadString(value, param, &spec_.previous_response_id));
  if (!spec_.previous_response_id.empty()) return Status::Ok();
  return InvalidArgument("An id is never empty.", param, "invalid_value");
}

Status CreateReader::Conversation(const JsonValue& value, const std::string& param) {
  const JsonValue* id = value.is_object() ? value.Find("id") : &value;
  if (id == nullptr || !id->is_string()) return WrongType(value, param, "an id or an object with an id");
  for (const auto& [key, field] : value.object()) {
    if (key != "id" && !field.is_null()) RETURN_IF_ERROR(ignored_->Unknown(param + "." + key));
  }
  if (id->string().empty()) return InvalidArgument("An id is never empty.", param, "invalid_value");
  spec_.conversation = id->string();
  return Status::Ok();
}

Status CreateReader::Window(const JsonValue& value, const std::string& param) {
  RETURN_IF_ERROR(ReadWindow(value, param, ignored_, &spec_.window));
  std::optional<std::string> known;
  return spec_.window.adapter.empty() ? Status::Ok()
                                      : ReadModelName(spec_.window.adapter, param + ".adapter", options_, &known);
}

Status CreateReader::Flag(const JsonValue& value, const std::string& param) {
  bool flag = false;
  RETURN_IF_ERROR(ReadBool(value, param, &flag));
  if (param == "store") spec_.store = flag;
  if (param == "generate") generate_ = flag;
  if (param == "stream" && http_ != nullptr) http_->stream = flag;
  if (param == "parallel_tool_calls") {
    parallel_tool_calls_ = flag;
    spec_.choice().several &= flag;
    spec_.choice().parallel = flag;
  }
  return Status::Ok();
}

Status CreateReader::RequestMetadata(const JsonValue& value, const std::string& param) {
  RETURN_IF_ERROR(ReadAnswerMetadata(value, param, ignored_, &metadata_));
  for (const auto& [key, text] : metadata_) {
    if (key == "client_request_id") client_request_id_ = text;
  }
  return Status::Ok();
}

Status CreateReader::EventId(const JsonValue& value, const std::string& param) {
  std::string id;
  RETURN_IF_ERROR(ReadString(value, param, &id));
  if (id.size() > static_cast<size_t>(limits::kMaxMetadataValueBytes)) {
    return InvalidArgument("The id is too long.", param, "string_above_max_length");
  }
  if (client_request_id_.empty()) client_request_id_ = std::move(id);
  return Status::Ok();
}

Status CreateReader::Include(const JsonValue& value, const std::string& param) {
  // Parts of items that no answer has here, and one that reasoning always has. Some clients always ask for them.
  static constexpr std::string_view kOfOthers[] = {
      "reasoning.encrypted_content",          "file_search_call.results",      "web_search_call.results",
      "web_search_call.action.sources",       "message.input_image.image_url", "code_interpreter_call.outputs",
      "computer_call_output.output.image_url"};
  if (!value.is_array()) return ignored_->Hint(param, "such an 'include'");
  for (const JsonValue& entry : value.array()) {
    if (entry.string() == "message.output_text.logprobs") {
      wants_logprobs_ = true;
    } else if (std::ranges::find(kOfOthers, entry.string()) == std::end(kOfOthers)) {
      RETURN_IF_ERROR(ignored_->Hint(param, "including '" + entry.string().substr(0, 256) + "'"));
    }
  }
  return Status::Ok();
}

Status CreateReader::TopLogprobs(const JsonValue& value, const std::string& param) {
  return ReadInteger(value, param, 0, limits::kMaxTopLogprobs, &top_logprobs_);
}

Status CreateReader::MaxToolCalls(const JsonValue& value, const std::string& param) {
  int64_t count = 0;  // of built-in tools, which there are none of
  return ReadInteger(value, param, 0, INT64_MAX, &count);
}

Status CreateReader::Truncation(const JsonValue& value, const std::string& param) {
  // History slides out of the window in both; new input that alone is longer than it is taken with "auto" only.
  RETURN_IF_ERROR(ReadString(value, param, &truncation_));
  spec_.truncates = truncation_ == "auto";
  if (truncation_ == "auto" || truncation_ == "disabled") return Status::Ok();
  return InvalidArgument("Supported values are: 'auto' and 'disabled'.", param, "invalid_value");
}

Status CreateReader::CacheOptions(const JsonValue& value, const std::string& param) {
  if (!value.is_object()) return WrongType(value, param, "an object");
  for (const auto& [key, field] : value.object()) {
    if (field.is_null()) continue;
    const std::string name = param + "." + key;
    std::string text;
    if (key == "prewarm") {
      RETURN_IF_ERROR(ReadBool(field, name, &prewarm_));
    } else if (key == "mode" || key == "ttl") {
      RETURN_IF_ERROR(ReadString(field, name, &text));
    } else {
      RETURN_IF_ERROR(ignored_->Unknown(name));
    }
  }
  return Status::Ok();
}

// [{"type": "compaction", "compact_threshold"}]; another type is a hint.
Status CreateReader::ContextManagement(const JsonValue& value, const std::string& param) {
  if (!value.is_array()) return WrongType(value, param, "an array");
  for (size_t i = 0; i < value.array().size(); ++i) {
    const JsonValue& entry = value.array()[i];
    const std::string at = param + "[" + std::to_string(i) + "]";
    if (!entry.is_object()) return WrongType(entry, at, "an object");
    const JsonValue *type = entry.Find("type"), *threshold = entry.Find("compact_threshold");
    if (type == nullptr) return MissingParameter(at + ".type");
    if (type->string() != "compaction") {
      RETURN_IF_ERROR(ignored_->Hint(at, "this context management"));
      continue;
    }
    if (spec_.compact_above) return InvalidArgument("There is a compaction already.", at + ".type", "invalid_value");
    for (const auto& [key, field] : entry.object()) {
      if (key != "type" && key != "compact_threshold") RETURN_IF_ERROR(ignored_->Unknown(at + "." + key));
    }
    spec_.compact_above = kDefaultCompactThreshold;
    if (threshold == nullptr) continue;
    RETURN_IF_ERROR(ReadInteger(*threshold, at + ".compact_threshold", 1, INT64_MAX, &*spec_.compact_above));
  }
  return Status::Ok();
}

// Another type is no label that could be repeated.
Status CreateReader::Label(const JsonValue& value, const std::string& param) {
  if (!value.is_string()) return ignored_->Hint(param, "such a '" + param + "'");
  if (value.string().size() > static_cast<size_t>(limits::kMaxMetadataValueBytes)) {
    return ignored_->Hint(param, "a '" + param + "' of more than 512 bytes");
  }
  labels_[param] = value.string();
  if (param == "prompt_cache_key" || param == "session_id") NoteTimelineKey(param, value.string(), &spec_);
  return Status::Ok();
}

Status CreateReader::Empty(const JsonValue& value, const std::string& param) {
  const bool empty = (value.is_array() && value.array().empty()) || (value.is_object() && value.object().empty());
  return empty ? Status::Ok() : Unsupported(param, "'" + param + "'");
}

Status CreateReader::Hint(const JsonValue& value, const std::string& param) {
  return ignored_->HintUnlessEmpty(value, param);
}

Status CreateReader::Background(const JsonValue& value, const std::string& param) {
  RETURN_IF_ERROR(ReadBool(value, param, &spec_.background));
  const bool socket = spec_.background && http_ == nullptr;
  return socket ? Unsupported(param, "'" + param + "' over a WebSocket") : Status::Ok();
}

// The socket has read it.
Status CreateReader::StreamId(const JsonValue&, const std::string& param) {
  return http_ != nullptr ? ignored_->Hint(param, "lanes over HTTP") : Status::Ok();
}

Status CreateReader::OneOf(const JsonValue& value, const std::string& param) {
  static const std::map<std::string, std::vector<std::string>, std::less<>> accepted = {
      {"service_tier", {"auto", "default"}},
      {"prompt_cache_retention", {"in_memory", "24h"}},
  };
  for (const std::string& choice : accepted.at(param)) {
    if (value.is_string() && value.string() == choice) return Status::Ok();
  }
  return ignored_->Hint(param, "this '" + param + "'");
}

Status CreateReader::Text(const JsonValue& value, const std::string& param) {
  if (!value.is_object()) return WrongType(value, param, "an object");
  for (const auto& [key, field] : value.object()) {
    if (field.is_null()) continue;
    const std::string name = param + "." + key;
    if (key == "format") {
      RETURN_IF_ERROR(ReadAnswerFormat(field, name, FormatShape::kFlat, ignored_, &spec_.format.emplace()));
      JsonWriter json;
      WriteJson(json, field);
      format_ = json.Take();
    } else if (key == "verbosity") {
      const bool usual = field.is_string() && field.string() == "medium";
      if (!usual) RETURN_IF_ERROR(ignored_->Hint(name, "a verbosity"));
    } else {
      RETURN_IF_ERROR(ignored_->Unknown(name));
    }
  }
  return Status::Ok();
}

Status CreateReader::Tools(const JsonValue& value, const std::string& param) {
  constexpr bool kStrict = true;  // unless they say otherwise
  RETURN_IF_ERROR(ReadTools(value, param, ToolShape::kFlat, kStrict, ignored_, &spec_.tools.emplace()));
  tools_ = ToolsEcho(value, kStrict);
  return Status::Ok();
}

Status CreateReader::Choice(const JsonValue& value, const std::string& param) {
  RETURN_IF_ERROR(ReadToolChoice(value, param, ToolShape::kFlat, &spec_.choice()));
  JsonWriter json;
  WriteJson(json, value);
  tool_choice_ = json.Take();
  return Status::Ok();
}

void CreateReader::WriteEcho() {
  const ReasoningSpec& reasoning = spec_.reasoning;
  const bool off = reasoning.mode == ReasoningSpec::Mode::kOff;
  const bool reasons = off || !reasoning.effort.empty() || !reasoning_.summary.empty();
  JsonWriter json;
  reasons ? json.Raw(ReasoningEcho(off ? "none" : reasoning.effort, reasoning_.summary)) : json.Key("reasoning").Null();
  json.Key("instructions");
  spec_.instructions ? json.Value(*spec_.instructions) : json.Null();
  json.Key("max_output_tokens");
  spec_.max_output_tokens ? json.Value(*spec_.max_output_tokens) : json.Null();
  json.Key("metadata").BeginObject();
  for (const auto& [key, text] : metadata_) json.Field(key, text);
  json.EndObject();
  json.Field("temperature", spec_.sampling.temperature).Field("top_p", spec_.sampling.top_p);
  json.Field("top_logprobs", top_logprobs_).Field("truncation", truncation_);
  json.Key("tools").Raw(tools_).Field("background", spec_.background).Field("service_tier", "default");
  for (const char* label : {"user", "safety_identifier", "prompt_cache_key"}) {
    const auto at = labels_.find(label);
    json.TextOrNull(label, at == labels_.end() ? "" : at->second);
  }
  json.Field("store", spec_.store);
  // What is not said of its form an answer that goes on has from the one that was cut.
  std::string choice;
  if (spec_.tool_choice) choice = ChoiceFields(tool_choice_, parallel_tool_calls_);
  spec_.echo = [fields = json.Take(), choice, format = format_, ignored = ignored_->names()](const AnswerForm& form) {
    JsonWriter all;
    all.Raw(fields);
    all.Raw(choice.empty() ? ChoiceFields(ToolChoiceJson(form.choice), form.choice.several) : choice);
    all.Key("text").BeginObject().Key("format").Raw(format.empty() ? FormatObject(form.format) : format).EndObject();
    return WithIgnored(all.Take(), ignored);
  };
}

}  // namespace

Result<TurnSpec> ReadCreate(const JsonValue& body, const SessionTableOptions& options, IgnoredFields* ignored,
                            HttpDelivery* http) {
  return CreateReader(options, ignored, http).Read(body);
}

std::vector<std::string> CreateFields() {
  std::vector<std::string> fields = SamplingFields();
  for (const auto& [field, handler] : CreateReader::Handlers()) fields.push_back(field);
  for (std::string& field : ReasoningFields()) fields.push_back(std::move(field));
  return fields;
}

}  // namespace ringside
