#include "ws/chat/completion_fields.h"

#include <functional>
#include <map>

#include "ws/chat/message_fields.h"
#include "ws/chat/stateless_answers.h"
#include "ws/fields/timeline_key.h"
#include "ws/openai/answer_format_reader.h"
#include "ws/openai/guided_format.h"
#include "ws/openai/responses/responses_fields.h"
#include "ws/openai/responses/responses_sampling.h"

namespace ringside {
namespace {

Status ReadStreamOptions(const JsonValue& value, const std::string& param, CompletionFields* fields) {
  if (!value.is_object()) return WrongType(value, param, "an object");
  for (const auto& [key, field] : value.object()) {
    if (field.is_null()) continue;
    const std::string name = param + "." + key;
    bool asked = false;
    if (key == "include_usage") {
      RETURN_IF_ERROR(ReadBool(field, name, &fields->include_usage));
    } else if (key == "continuous_usage_stats") {
      RETURN_IF_ERROR(ReadBool(field, name, &fields->continuous_usage));
    } else if (key == "include_obfuscation") {
      RETURN_IF_ERROR(ReadBool(field, name, &asked));
      if (asked) RETURN_IF_ERROR(fields->ignored.Hint(name, "'" + key + "'"));
    } else {
      RETURN_IF_ERROR(fields->ignored.Unknown(name));
    }
  }
  return Status::Ok();
}

Status ReadLabel(const JsonValue& value, const std::string& param, CompletionFields* fields) {
  return value.is_string() ? Status::Ok() : fields->ignored.Hint(param, "such a '" + param + "'");
}

Status ReadTimelineKey(const JsonValue& value, const std::string& param, CompletionFields* fields) {
  if (value.is_string()) NoteTimelineKey(param, value.string(), &fields->turn);
  return ReadLabel(value, param, fields);
}

Status ReadTier(const JsonValue& value, const std::string& param, CompletionFields* fields) {
  if (value.is_string() && (value.string() == "auto" || value.string() == "default")) return Status::Ok();
  return fields->ignored.Hint(param, "a service tier");
}

}  // namespace

Status ChooseGuided(CompletionFields* fields) {
  if (!fields->guided) return Status::Ok();
  if (fields->turn.format && fields->turn.format->kind != AnswerFormat::Kind::kText) {
    return InvalidArgument("An answer has one form: 'response_format' gives another.", fields->guided->param,
                           "mutually_exclusive_parameters");
  }
  fields->turn.format = std::move(fields->guided);
  return Status::Ok();
}

Status ReadCompletionField(const JsonValue& value, const std::string& param, const SessionTableOptions& options,
                           CompletionFields* fields) {
  using Read =
      std::function<Status(const JsonValue&, const std::string&, const SessionTableOptions&, CompletionFields*)>;
  const auto label = [](auto& v, auto& p, auto&, auto* f) { return ReadLabel(v, p, f); };
  const auto key = [](auto& v, auto& p, auto&, auto* f) { return ReadTimelineKey(v, p, f); };
  static const std::map<std::string, Read, std::less<>> readers = {
      {"model", [](auto& v, auto& p, auto& o, auto* f) { return ReadModel(v, p, o, &f->turn.adapter); }},
      {"stream", [](auto& v, auto& p, auto&, auto* f) { return ReadBool(v, p, &f->stream); }},
      {"stream_options", [](auto& v, auto& p, auto&, auto* f) { return ReadStreamOptions(v, p, f); }},
      {"n", [](auto& v, auto& p, auto&, auto* f) { return ReadInteger(v, p, 1, kMaxChoices, &f->choices); }},
      {"max_tokens", [](auto& v, auto& p, auto&, auto* f) { return ReadOutputTokens(v, p, 1, &f->turn); }},
      {"response_format",
       [](auto& v, auto& p, auto&, auto* f) {
         return ReadAnswerFormat(v, p, FormatShape::kNested, &f->ignored, &f->turn.format.emplace());
       }},
      {"return_token_ids", [](auto& v, auto& p, auto&, auto* f) { return ReadBool(v, p, &f->turn.token_ids); }},
      {"service_tier", [](auto& v, auto& p, auto&, auto* f) { return ReadTier(v, p, f); }},
      {"user", label},
      {"safety_identifier", label},
      {"prompt_cache_key", key},
      {"session_id", key},
  };
  const auto reader = readers.find(param);
  if (reader != readers.end()) return reader->second(value, param, options, fields);
  if (IsGuidedField(param)) return ReadGuidedField(value, param, &fields->ignored, &fields->guided);
  const bool sampling = IsSamplingField(param) && param != "max_output_tokens";
  return sampling ? ReadSamplingField(value, param, &fields->turn) : fields->ignored.UnknownOfRequest(value, param);
}

}  // namespace ringside
