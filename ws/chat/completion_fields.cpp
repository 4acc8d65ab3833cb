#include "ws/chat/completion_fields.h"

#include "ws/chat/stateless_answers.h"
#include "ws/content/answer_format_reader.h"
#include "ws/content/guided_format.h"
#include "ws/fields/common_fields.h"
#include "ws/fields/sampling_fields.h"

namespace ringside {
namespace {

Status ReadFormat(const JsonValue& value, const std::string& param, const FieldContext& context, TurnSpec* turn) {
  return ReadAnswerFormat(value, param, FormatShape::kNested, context.ignored, &turn->format.emplace());
}

Status ReadObfuscation(const JsonValue& value, const std::string& param, const FieldContext& context,
                       CompletionFields*) {
  bool asked = false;
  RETURN_IF_ERROR(ReadBool(value, param, &asked));
  return asked ? context.ignored->Hint(param, "'include_obfuscation'") : Status::Ok();
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

const Fields<CompletionFields>& CompletionRows() {
  static const FieldTable<CompletionFields> stream_options({
      {"include_usage", &CompletionFields::include_usage},
      {"continuous_usage_stats", &CompletionFields::continuous_usage},
      {"include_obfuscation", FieldType::kBool, ReadObfuscation},
  });
  static const Fields<TurnSpec> turn = Join(
      Fields<TurnSpec>{
          ModelField(),
          OutputTokensField("max_tokens"),
          {"response_format", FieldType::kObject, ReadFormat},
          {"return_token_ids", &TurnSpec::token_ids},
          TimelineKeyField("prompt_cache_key"),
          TimelineKeyField("session_id"),
      },
      SamplingFields());
  static const Fields<CompletionFields> rows = Join(
      Fields<CompletionFields>{
          {"stream", &CompletionFields::stream},
          {"stream_options", stream_options},
          {"n", &CompletionFields::choices, Range{1, kMaxChoices}},
          {"service_tier", Hint{{"auto", "default"}, "a service tier"}},
          LabelField("user"),
          LabelField("safety_identifier"),
      },
      In(&CompletionFields::turn, turn), In(&CompletionFields::guided, GuidedFields()));
  return rows;
}

}  // namespace ringside
