#include "ws/fields/common_fields.h"

#include <algorithm>
#include <charconv>

#include "base/limits.h"
#include "session/model_source.h"
#include "ws/fields/request_size.h"
#include "ws/fields/timeline_key.h"

namespace ringside {
namespace {

std::string Within(const std::string& param, std::string_view key) { return param + "." + std::string(key); }

/// ERRORS: the type or the limit that the entry violates.
Status CheckEntry(const std::string& key, const JsonValue& text, const std::string& name) {
  if (!text.is_string()) return WrongType(text, name, "a string");
  if (key.size() <= static_cast<size_t>(limits::kMaxMetadataKeyBytes) &&
      text.string().size() <= static_cast<size_t>(limits::kMaxMetadataValueBytes)) {
    return Status::Ok();
  }
  return InvalidArgument("Metadata keys have at most " + std::to_string(limits::kMaxMetadataKeyBytes) +
                             " bytes, values " + std::to_string(limits::kMaxMetadataValueBytes) + ".",
                         name, "string_above_max_length");
}

}  // namespace

Status ReadMetadata(const JsonValue& value, std::string_view param, Metadata* out) {
  IgnoredFields none(/*strict=*/true);
  return ReadAnswerMetadata(value, param, &none, out);
}

Status ReadAnswerMetadata(const JsonValue& value, std::string_view param, IgnoredFields* ignored, Metadata* out) {
  constexpr auto kMost = static_cast<size_t>(limits::kMaxMetadataEntries);
  if (!value.is_object()) return WrongType(value, param, "an object");
  if (value.object().size() > kMost && ignored->strict()) {
    return InvalidArgument("At most " + std::to_string(kMost) + " metadata entries are allowed.", std::string(param),
                           "invalid_value");
  }
  Metadata metadata;
  for (const auto& [key, text] : value.object()) {
    const std::string name = Within(std::string(param), key.substr(0, limits::kMaxMetadataKeyBytes));
    const Status good = CheckEntry(key, text, name);
    if (!good.ok() && (ignored->strict() || key == "client_request_id")) return good;
    if (good.ok() && metadata.size() < kMost) {
      metadata.emplace_back(key, text.string());
    } else {
      RETURN_IF_ERROR(ignored->Hint(param, "this entry"));  // without its key, which is user text
    }
  }
  *out = std::move(metadata);
  return Status::Ok();
}

Result<JsonValue> ReadBody(const HttpRequest& request, bool may_be_empty) {
  const bool empty = may_be_empty && request.body.empty();
  ASSIGN_OR_RETURN(JsonValue body, ParseRequest(empty ? std::string_view("{}") : request.body));
  if (!body.is_object()) return WrongType(body, "body", "an object");
  return body;
}

bool IsAlias(std::string_view name, const std::vector<std::string>& aliases) {
  return std::ranges::any_of(aliases, [name](std::string_view alias) {
    return alias.ends_with('*') ? name.starts_with(alias.substr(0, alias.size() - 1)) : name == alias;
  });
}

Status ReadModelName(std::string_view name, std::string_view param, const SessionTableOptions& options,
                     std::optional<std::string>* adapter) {
  if (name.empty()) return Status::Ok();
  if (options.models != nullptr) return options.models->Resolve(name, param).status();
  const bool model = name == options.model_name;
  if (model || options.NumberOfAdapter(name)) {
    *adapter = model ? "" : std::string(name);
    return Status::Ok();
  }
  if (IsAlias(name, options.aliases)) {
    *adapter = "";
    return Status::Ok();
  }
  std::string have = "'" + options.model_name + "'";
  for (const std::string& other : options.adapters) have += ", '" + other + "'";
  return NotFound("The model '" + std::string(name.substr(0, kQuotedBytes)) + "' does not exist; this server has " +
                      have + ". Its --model-alias adds names.",
                  std::string(param), "model_not_found");
}

Status ReadModel(const JsonValue& value, const std::string& param, const SessionTableOptions& options,
                 std::optional<std::string>* adapter) {
  std::string name;
  RETURN_IF_ERROR(ReadString(value, param, &name));
  constexpr std::string_view kLatest = ":latest";
  const bool known = name == options.model_name || options.NumberOfAdapter(name);
  std::string_view asked = name;
  if (!known && asked.ends_with(kLatest)) asked.remove_suffix(kLatest.size());
  return ReadModelName(asked, param, options, adapter);
}

const std::string& ModelNameOf(const std::optional<std::string>& adapter, const SessionTableOptions& options) {
  return adapter && !adapter->empty() ? *adapter : options.model_name;
}

Field<TurnSpec> ModelField() {
  const auto read = [](const JsonValue& value, const std::string& param, const FieldContext& context, TurnSpec* turn) {
    RETURN_IF_ERROR(ReadModel(value, param, context.options, &turn->adapter));
    return ReadString(value, param, &turn->model);
  };
  return {"model", FieldType::kString, read};
}

const Fields<void>& EventFields() {
  static const Fields<void> rows = {{"type", Silent{}}, {"event_id", Silent{}}};
  return rows;
}

Result<int64_t> ReadQueryCount(const JsonValue& value, const std::string& param, const std::string& what) {
  const std::string& text = value.string();
  int64_t count = 0;
  const auto [rest, error] = std::from_chars(text.data(), text.data() + text.size(), count);
  if (error == std::errc() && rest == text.data() + text.size() && count >= 0) return count;
  return InvalidArgument("'" + param + "' is " + what + ".", param, "invalid_value");
}

Field<void> LabelField(std::string name) {
  const auto read = [](const JsonValue& value, const std::string& param, const FieldContext& context, void*) {
    return value.is_string() ? Status::Ok() : context.ignored->Hint(param, "such a '" + param + "'");
  };
  return {std::move(name), FieldType::kString, read, FieldPolicy::kLenient};
}

Field<TurnSpec> TimelineKeyField(std::string name) {
  const auto read = [label = LabelField(name).read](const JsonValue& value, const std::string& param,
                                                    const FieldContext& context, TurnSpec* turn) {
    if (value.is_string()) NoteTimelineKey(param, value.string(), turn);
    return label(value, param, context, turn);
  };
  return {std::move(name), FieldType::kString, read, FieldPolicy::kLenient};
}

Field<void> TextOnlyField(std::string name, std::string what) {
  const auto read = [what = std::move(what)](const JsonValue& value, const std::string& param, const FieldContext&,
                                             void*) {
    const std::vector<JsonValue>& forms = value.array();
    return forms.size() == 1 && forms[0].string() == "text" ? Status::Ok() : Unsupported(param, what);
  };
  return {std::move(name), FieldType::kArray, read, FieldPolicy::kRead, R"(["text"])"};
}

const FieldTable<WindowOverrides>& WindowTable() {
  const auto read_eviction = [](const JsonValue& value, const std::string& param, const FieldContext&,
                                WindowOverrides* out) {
    if (!value.is_string()) return WrongType(value, param, "a string");
    if (value.string() != "turn" && value.string() != "token") {
      return InvalidArgument("Invalid value: " + Quoted(value.string().substr(0, kQuotedBytes)) +
                                 ". Supported values are: 'turn', 'token'.",
                             param, "invalid_value");
    }
    out->eviction = value.string() == "turn" ? Eviction::kTurn : Eviction::kToken;
    return Status::Ok();
  };
  const auto read_model = [](const JsonValue& value, const std::string& param, const FieldContext& context,
                             WindowOverrides* out) {
    std::optional<std::string> adapter;
    RETURN_IF_ERROR(ReadModel(value, param, context.options, &adapter));
    return ReadString(value, param, &out->model);
  };
  static const FieldTable<WindowOverrides> table(
      {{"memory_len", &WindowOverrides::memory_len, Range{1}},
       {"session_len", &WindowOverrides::session_len, Range{1}},
       {"adapter", &WindowOverrides::adapter},
       {"model", FieldType::kString, read_model},
       {"eviction", FieldType::kString, read_eviction, FieldPolicy::kRead, "turn, token"}});
  return table;
}

}  // namespace ringside
