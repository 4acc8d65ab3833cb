#include "ws/openai/responses/responses_sampling.h"

#include <charconv>
#include <functional>
#include <map>

#include "base/limits.h"
#include "ws/openai/responses/responses_fields.h"

namespace ringside {
namespace {

Status Number(const JsonValue& value, const std::string& param, TurnSpec* spec) {
  static const std::map<std::string, double SamplingParams::*, std::less<>> members = {
      {"temperature", &SamplingParams::temperature},
      {"top_p", &SamplingParams::top_p},
      {"min_p", &SamplingParams::min_p},
      {"repetition_penalty", &SamplingParams::repetition_penalty},
      {"presence_penalty", &SamplingParams::presence_penalty},
      {"frequency_penalty", &SamplingParams::frequency_penalty},
      {"top_p_decay", &SamplingParams::top_p_decay},
      {"top_p_min", &SamplingParams::top_p_min},
  };
  return ReadNumber(value, param, &(spec->sampling.*members.at(param)));
}

Status Count(const JsonValue& value, const std::string& param, TurnSpec* spec) {
  int64_t count = 0;
  if (param == "seed") {
    RETURN_IF_ERROR(ReadInteger(value, param, INT64_MIN, INT64_MAX, &count));
    spec->sampling.seed = static_cast<uint64_t>(count);
  } else if (param == "max_output_tokens") {
    return ReadOutputTokens(value, param, 1, spec);
  } else if (param == "top_k") {
    RETURN_IF_ERROR(ReadInteger(value, param, -1, INT64_MAX, &count));
    spec->sampling.top_k = count < 0 ? 0 : count;  // -1 is off, as elsewhere
  } else if (param == "min_tokens") {
    RETURN_IF_ERROR(ReadInteger(value, param, 0, INT64_MAX, &spec->sampling.min_tokens));
  } else {
    RETURN_IF_ERROR(ReadInteger(value, param, -1, INT32_MAX, &count));
    spec->sampling.top_p_reset = static_cast<TokenId>(count);
  }
  return Status::Ok();
}

Status Stop(const JsonValue& value, const std::string& param, TurnSpec* spec) {
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

Status StopIds(const JsonValue& value, const std::string& param, TurnSpec* spec) {
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

Status LogitBias(const JsonValue& value, const std::string& param, TurnSpec* spec) {
  if (!value.is_object()) return WrongType(value, param, "an object of token ids to numbers");
  if (value.object().size() > static_cast<size_t>(limits::kMaxLogitBiasEntries)) {
    return InvalidArgument("At most " + std::to_string(limits::kMaxLogitBiasEntries) + " entries are allowed.", param,
                           "array_above_max_length");
  }
  for (const auto& [key, entry] : value.object()) {
    TokenId id = 0;
    const auto parsed = std::from_chars(key.data(), key.data() + key.size(), id);
    if (key.empty() || parsed.ec != std::errc() || parsed.ptr != key.data() + key.size()) {
      return InvalidArgument("Its keys are token ids.", param, "invalid_value");
    }
    double bias = 0;
    RETURN_IF_ERROR(ReadNumber(entry, param, &bias));
    if (!(bias >= -100 && bias <= 100)) return InvalidArgument("A bias lies in [-100, 100].", param, "invalid_value");
    spec->sampling.logit_bias.emplace_back(id, static_cast<float>(bias));
  }
  return Status::Ok();
}

Status BadWords(const JsonValue& value, const std::string& param, TurnSpec* spec) {
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

Status Beams(const JsonValue& value, const std::string& param, TurnSpec* spec) {
  BeamParams& beams = spec->sampling.beams;
  if (param == "beam_width") return ReadInteger(value, param, 1, limits::kMaxBeamWidth, &beams.width);
  if (param == "length_penalty") return ReadNumber(value, param, &beams.length_penalty);
  if (param == "beam_search_diversity_rate") return ReadNumber(value, param, &beams.diversity_rate);
  using EarlyStopping = BeamParams::EarlyStopping;
  if (value.is_string() && value.string() == "never") {
    beams.early_stopping = EarlyStopping::kNever;
    return Status::Ok();
  }
  if (!value.is_bool()) return WrongType(value, param, "a boolean or \"never\"");
  beams.early_stopping = value.boolean() ? EarlyStopping::kYes : EarlyStopping::kNo;
  return Status::Ok();
}

bool Given(const JsonValue& body, std::string_view key) {
  const JsonValue* value = body.Find(key);
  return value != nullptr && !value->is_null();
}

Status IgnoreEos(const JsonValue& value, const std::string& param, TurnSpec* spec) {
  return ReadBool(value, param, &spec->ignore_end_of_turn);
}

using Handler = Status (*)(const JsonValue&, const std::string&, TurnSpec*);

const std::map<std::string, Handler, std::less<>>& Handlers() {
  static const std::map<std::string, Handler, std::less<>> handlers = {
      {"temperature", Number},
      {"top_p", Number},
      {"min_p", Number},
      {"repetition_penalty", Number},
      {"presence_penalty", Number},
      {"frequency_penalty", Number},
      {"top_p_decay", Number},
      {"top_p_min", Number},
      {"top_p_reset", Count},
      {"top_k", Count},
      {"seed", Count},
      {"min_tokens", Count},
      {"max_output_tokens", Count},
      {"stop", Stop},
      {"stop_token_ids", StopIds},
      {"logit_bias", LogitBias},
      {"bad_words", BadWords},
      {"ignore_eos", IgnoreEos},
      {"beam_width", Beams},
      {"length_penalty", Beams},
      {"early_stopping", Beams},
      {"beam_search_diversity_rate", Beams},
  };
  return handlers;
}

}  // namespace

bool IsSamplingField(std::string_view key) { return Handlers().find(key) != Handlers().end(); }

std::vector<std::string> SamplingFields() {
  std::vector<std::string> fields;
  for (const auto& [field, handler] : Handlers()) fields.push_back(field);
  return fields;
}

Status ReadSamplingField(const JsonValue& value, const std::string& param, TurnSpec* spec) {
  return Handlers().find(param)->second(value, param, spec);
}

Status ReadOutputTokens(const JsonValue& value, const std::string& param, int64_t least, TurnSpec* spec) {
  const bool unlimited = value.is_number() && value.number() == -1;
  int64_t count = kNoOutputLimit;
  if (!unlimited) RETURN_IF_ERROR(ReadInteger(value, param, least, INT64_MAX, &count));
  spec->max_output_tokens = count;
  return Status::Ok();
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
  // What requests that say nothing of them would be drawn with.
  sampling.temperature = sampling.min_p = 0;
  sampling.top_p = 1;
  sampling.top_k = 0;
  return Status::Ok();
}

}  // namespace ringside
