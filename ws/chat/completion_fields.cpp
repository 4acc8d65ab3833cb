#include "ws/chat/completion_fields.h"

#include <functional>
#include <map>

#include "ws/chat/message_fields.h"
#include "ws/chat/stateless_answers.h"
#include "ws/openai/answer_format_reader.h"
#include "ws/openai/responses/responses_fields.h"
#include "ws/openai/responses/responses_sampling.h"

namespace ringside {
namespace {

Status ReadStreamOptions(const JsonValue& value, const std::string& param, CompletionFields* fields) {
  if (!value.is_object()) return WrongType(value, param, "an object");
  for (const auto& [key, field] : value.object()) {
    if (field.is_null()) continue;
    const std::string name = param + "." + key;
    bool ignored = false;
    if (key == "include_usage") {
      RETURN_IF_ERROR(ReadBool(field, name, &fields->include_usage));
    } else if (key == "include_obfuscation" || key == "continuous_usage_stats") {
      RETURN_IF_ERROR(ReadBool(field, name, &ignored));
      if (ignored) return Unsupported(name, "'" + key + "'");
    } else {
      return UnknownParameter(name.substr(0, 256));
    }
  }
  return Status::Ok();
}

Status ReadLabel(const JsonValue& value, const std::string& param) {
  std::string ignored;
  return ReadString(value, param, &ignored);
}

Status ReadTier(const JsonValue& value, const std::string& param) {
  if (value.is_string() && (value.string() == "auto" || value.string() == "default")) return Status::Ok();
  return Unsupported(param, "a service tier");
}

}  // namespace

Result<bool> ReadCompletionField(const JsonValue& value, const std::string& param, const SessionTableOptions& options,
                                 CompletionFields* fields) {
  using Read =
      std::function<Status(const JsonValue&, const std::string&, const SessionTableOptions&, CompletionFields*)>;
  const auto label = [](auto& v, auto& p, auto&, auto*) { return ReadLabel(v, p); };
  static const std::map<std::string, Read, std::less<>> readers = {
      {"model", [](auto& v, auto& p, auto& o, auto* f) { return ReadModel(v, p, o, &f->turn.adapter); }},
      {"stream", [](auto& v, auto& p, auto&, auto* f) { return ReadBool(v, p, &f->stream); }},
      {"stream_options", [](auto& v, auto& p, auto&, auto* f) { return ReadStreamOptions(v, p, f); }},
      {"n", [](auto& v, auto& p, auto&, auto* f) { return ReadInteger(v, p, 1, kMaxChoices, &f->choices); }},
      {"max_tokens",
       [](auto& v, auto& p, auto&, auto* f) {
         int64_t count = 0;
         RETURN_IF_ERROR(ReadInteger(v, p, 1, INT64_MAX, &count));
         f->turn.max_output_tokens = count;
         return Status::Ok();
       }},
      {"response_format",
       [](auto& v, auto& p, auto&, auto* f) {
         return ReadAnswerFormat(v, p, FormatShape::kNested, &f->turn.format.emplace());
       }},
      {"return_token_ids", [](auto& v, auto& p, auto&, auto* f) { return ReadBool(v, p, &f->turn.token_ids); }},
      {"service_tier", [](auto& v, auto& p, auto&, auto*) { return ReadTier(v, p); }},
      {"user", label},
      {"safety_identifier", label},
      {"prompt_cache_key", label},
  };
  const auto reader = readers.find(param);
  if (reader != readers.end()) {
    RETURN_IF_ERROR(reader->second(value, param, options, fields));
    return true;
  }
  if (!IsSamplingField(param) || param == "max_output_tokens") return false;
  RETURN_IF_ERROR(ReadSamplingField(value, param, &fields->turn));
  return true;
}

}  // namespace ringside
