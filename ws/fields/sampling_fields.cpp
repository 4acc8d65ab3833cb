#include "ws/fields/sampling_fields.h"

#include <algorithm>
#include <charconv>
#include <map>

#include "base/limits.h"

namespace ringside {
namespace {

Status ReadSeed(const JsonValue& value, const std::string& param, const FieldContext&, SamplingParams* out) {
  int64_t seed = 0;
  RETURN_IF_ERROR(ReadInteger(value, param, INT64_MIN, INT64_MAX, &seed));
  out->seed = static_cast<uint64_t>(seed);
  return Status::Ok();
}

Status ReadTopK(const JsonValue& value, const std::string& param, const FieldContext&, SamplingParams* out) {
  int64_t count = 0;
  RETURN_IF_ERROR(ReadInteger(value, param, -1, INT64_MAX, &count));
  out->top_k = std::max<int64_t>(count, 0);  // -1 means off, as on other servers
  return Status::Ok();
}

Status ReadTopPReset(const JsonValue& value, const std::string& param, const FieldContext&, SamplingParams* out) {
  int64_t id = 0;
  RETURN_IF_ERROR(ReadInteger(value, param, -1, INT32_MAX, &id));
  out->top_p_reset = static_cast<TokenId>(id);
  return Status::Ok();
}

Status ReadStop(const JsonValue& value, const std::string& param, const FieldContext&, TurnSpec* spec) {
  const auto add = [&](const JsonValue& entry) {
    if (!entry.is_string()) return WrongType(entry, param, "a string or an array of strings");
    if (entry.string().empty() || entry.string().size() > static_cast<size_t>(limits::kMaxStopStringBytes)) {
      return InvalidArgument("A stop string has 1 to " + std::to_string(limits::kMaxStopStringBytes) + " bytes.", param,
                             "invalid_value");
    }
    spec->stop_strings.push_back(entry.string());
    return Status::Ok();
  };
  if (!value.is_array()) return add(value);
  if (value.array().size() > static_cast<size_t>(limits::kMaxStopStrings)) {
    return InvalidArgument("At most " + std::to_string(limits::kMaxStopStrings) + " stop strings are allowed.", param,
                           "array_above_max_length");
  }
  for (const JsonValue& entry : value.array()) RETURN_IF_ERROR(add(entry));
  return Status::Ok();
}

Status ReadStopIds(const JsonValue& value, const std::string& param, const FieldContext&, TurnSpec* spec) {
  if (!value.is_array()) return WrongType(value, param, "an array of integers");
  if (value.array().size() > static_cast<size_t>(limits::kMaxLogitBiasEntries)) {
    return InvalidArgument("Too many ids.", param, "array_above_max_length");
  }
  for (const JsonValue& entry : value.array()) {
    int64_t id = 0;
    RETURN_IF_ERROR(ReadInteger(entry, param, 0, INT32_MAX, &id));
    spec->stop_ids.push_back(static_cast<TokenId>(id));
  }
  return Status::Ok();
}

Status ReadLogitBias(const JsonValue& value, const std::string& param, const FieldContext&, SamplingParams* out) {
  if (!value.is_object()) return WrongType(value, param, "an object of token ids to numbers");
  if (value.object().size() > static_cast<size_t>(limits::kMaxLogitBiasEntries)) {
    return InvalidArgument("At most " + std::to_string(limits::kMaxLogitBiasEntries) + " entries are allowed.", param,
                           "array_above_max_length");
  }
  for (const auto& [key, entry] : value.object()) {
    TokenId id = 0;
    const auto parsed = std::from_chars(key.data(), key.data() + key.size(), id);
    if (key.empty() || parsed.ec != std::errc() || parsed.ptr != key.data() + key.size()) {
      return InvalidArgument("Every key must be a token id, an integer.", param, "invalid_value");
    }
    double bias = 0;
    RETURN_IF_ERROR(ReadNumber(entry, param, &bias));
    if (!(bias >= -100 && bias <= 100)) return InvalidArgument("A bias lies in [-100, 100].", param, "invalid_value");
    out->logit_bias.emplace_back(id, static_cast<float>(bias));
  }
  return Status::Ok();
}

Status ReadBadWords(const JsonValue& value, const std::string& param, const FieldContext&, TurnSpec* spec) {
  if (!value.is_array()) return WrongType(value, param, "an array of strings or of arrays of token ids");
  if (value.array().size() > static_cast<size_t>(limits::kMaxBadWords)) {
    return InvalidArgument("At most " + std::to_string(limits::kMaxBadWords) + " entries are allowed.", param,
                           "array_above_max_length");
  }
  for (const JsonValue& entry : value.array()) {
    if (entry.is_string()) {
      if (entry.string().empty() || entry.string().size() > static_cast<size_t>(limits::kMaxStopStringBytes)) {
        return InvalidArgument("A bad word has 1 to " + std::to_string(limits::kMaxStopStringBytes) + " bytes.", param,
                               "invalid_value");
      }
      spec->bad_words.push_back(entry.string());
      continue;
    }
    if (!entry.is_array()) return WrongType(entry, param, "an array of strings or of arrays of token ids");
    std::vector<TokenId> ids;
    if (entry.array().empty() || entry.array().size() > static_cast<size_t>(limits::kMaxStopStringBytes)) {
      return InvalidArgument("An entry has 1 to " + std::to_string(limits::kMaxStopStringBytes) + " ids.", param,
                             "invalid_value");
    }
    for (const JsonValue& element : entry.array()) {
      int64_t id = 0;
      RETURN_IF_ERROR(ReadInteger(element, param, 0, INT32_MAX, &id));
      ids.push_back(static_cast<TokenId>(id));
    }
    spec->sampling.bad_words.push_back(std::move(ids));
  }
  return Status::Ok();
}

Status ReadEarlyStopping(const JsonValue& value, const std::string& param, const FieldContext&, BeamParams* beams) {
  using EarlyStopping = BeamParams::EarlyStopping;
  if (value.is_string() && value.string() == "never") {
    beams->early_stopping = EarlyStopping::kNever;
    return Status::Ok();
  }
  if (!value.is_bool()) return WrongType(value, param, "a boolean or \"never\"");
  beams->early_stopping = value.boolean() ? EarlyStopping::kYes : EarlyStopping::kNo;
  return Status::Ok();
}

bool Given(const JsonValue& body, std::string_view key) {
  const JsonValue* value = body.Find(key);
  return value != nullptr && !value->is_null();
}

Fields<SamplingParams> ParamRows() {
  return Join(
      Fields<SamplingParams>{
          {"temperature", &SamplingParams::temperature},
          {"top_p", &SamplingParams::top_p},
          {"min_p", &SamplingParams::min_p},
          {"repetition_penalty", &SamplingParams::repetition_penalty},
          {"presence_penalty", &SamplingParams::presence_penalty},
          {"frequency_penalty", &SamplingParams::frequency_penalty},
          {"top_p_decay", &SamplingParams::top_p_decay},
          {"top_p_min", &SamplingParams::top_p_min},
          {"top_p_reset", FieldType::kInteger, ReadTopPReset},
          {"top_k", FieldType::kInteger, ReadTopK, FieldPolicy::kRead, "at least -1"},
          {"seed", FieldType::kInteger, ReadSeed},
          {"min_tokens", &SamplingParams::min_tokens, Range{0}},
          {"logit_bias", FieldType::kObject, ReadLogitBias},
      },
      In(&SamplingParams::beams, Fields<BeamParams>{
                                     {"beam_width", &BeamParams::width, Range{1, limits::kMaxBeamWidth}},
                                     {"length_penalty", &BeamParams::length_penalty},
                                     {"early_stopping", FieldType::kBool | FieldType::kString, ReadEarlyStopping},
                                     {"beam_search_diversity_rate", &BeamParams::diversity_rate},
                                 }));
}

}  // namespace

const Fields<TurnSpec>& SamplingFields() {
  static const Fields<TurnSpec> rows = Join(
      Fields<TurnSpec>{
          {"stop", FieldType::kString | FieldType::kArray, ReadStop},
          {"stop_token_ids", FieldType::kArray, ReadStopIds},
          {"bad_words", FieldType::kArray, ReadBadWords},
          {"ignore_eos", &TurnSpec::ignore_end_of_turn},
      },
      In(&TurnSpec::sampling, ParamRows()));
  return rows;
}

Field<TurnSpec> OutputTokensField(std::string name, int64_t least) {
  const auto read = [least](const JsonValue& value, const std::string& param, const FieldContext&, TurnSpec* spec) {
    const bool unlimited = value.is_number() && value.number() == -1;
    int64_t count = kNoOutputLimit;
    if (!unlimited) RETURN_IF_ERROR(ReadInteger(value, param, least, INT64_MAX, &count));
    spec->max_output_tokens = count;
    return Status::Ok();
  };
  return {std::move(name), FieldType::kInteger, read, FieldPolicy::kClamp, RangeText(least, INT64_MAX) + ", or -1"};
}

void ClampOutput(const SessionTableOptions& options, const std::string& param, TurnSpec* spec, IgnoredFields* ignored) {
  const int64_t limit = options.max_output_tokens_limit, asked = spec->max_output_tokens.value_or(0);
  const int64_t most = limit > 0 ? limit : options.session_len;
  if (asked <= most) return;
  if (asked != kNoOutputLimit && !ignored->Hint(param, "so long an answer").ok()) return;
  spec->max_output_tokens = most;
}

Status CheckBeamFields(const JsonValue& body, TurnSpec* spec) {
  SamplingParams& sampling = spec->sampling;
  if (!sampling.beams.searches()) {
    for (const char* key : {"length_penalty", "early_stopping", "beam_search_diversity_rate"}) {
      if (Given(body, key)) {
        return InvalidArgument("'" + std::string(key) + "' needs a 'beam_width' above 1.", key, "invalid_value");
      }
    }
    return Status::Ok();
  }
  static const std::map<std::string, double, std::less<>> harmless = {
      {"temperature", 0}, {"top_p", 1}, {"top_k", 0}, {"min_p", 0}, {"top_p_decay", 1}, {"n", 1}};
  for (const char* key :
       {"temperature", "top_p", "top_k", "min_p", "seed", "top_p_decay", "top_p_min", "top_p_reset", "n"}) {
    if (!Given(body, key)) continue;
    const auto value = harmless.find(key);
    const JsonValue& given = *body.Find(key);
    if (value != harmless.end() && given.is_number() && given.number() == value->second) continue;
    return Unsupported(key, "'" + std::string(key) + "' together with 'beam_width'");
  }
  // The settings that apply if a request has none.
  sampling.temperature = sampling.min_p = 0;
  sampling.top_p = 1;
  sampling.top_k = 0;
  return Status::Ok();
}

}  // namespace ringside
