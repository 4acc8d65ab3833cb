#include "ws/openai/guided_format.h"

#include <map>

#include "engine/grammar/tools/lark.h"
#include "ws/fields/field_readers.h"
#include "ws/json/json_text.h"
#include "ws/json/json_writer.h"

namespace ringside {
namespace {

using Kind = AnswerFormat::Kind;

/// A schema, or one as text.
Status ReadSchema(const JsonValue& value, const std::string& param, AnswerFormat* out) {
  const Result<JsonValue> parsed = value.is_string() ? ParseJson(value.string()) : Result<JsonValue>(value);
  if (!parsed.ok() || !parsed->is_object()) return WrongType(value, param, "a JSON Schema");
  JsonWriter json;
  WriteJson(json, *parsed);
  out->kind = Kind::kJsonSchema;
  out->text = json.Take();
  return Status::Ok();
}

Status ReadRegex(const JsonValue& value, const std::string& param, AnswerFormat* out) {
  out->kind = Kind::kRegex;
  return ReadString(value, param, &out->text);
}

/// One of these texts.
Status ReadChoice(const JsonValue& value, const std::string& param, AnswerFormat* out) {
  if (!value.is_array() || value.array().empty()) return WrongType(value, param, "a list of strings");
  out->kind = Kind::kRegex;
  for (const JsonValue& entry : value.array()) {
    if (!entry.is_string()) return WrongType(entry, param, "a list of strings");
    if (&entry != &value.array().front()) out->text += '|';
    for (const char c : entry.string()) {
      if (std::string_view("\\^$.*+?()[]{}|/").find(c) != std::string_view::npos) out->text += '\\';
      out->text += c;
    }
  }
  out->text = "(?:" + out->text + ")";
  return Status::Ok();
}

Status ReadGrammar(const JsonValue& value, const std::string& param, AnswerFormat* out) {
  out->kind = Kind::kGbnf;
  RETURN_IF_ERROR(ReadString(value, param, &out->text));
  if (out->text.find("::=") != std::string::npos) return Status::Ok();
  const Result<std::string> regex = LarkToRegex(out->text);
  if (!regex.ok()) return InvalidArgument(regex.status().message(), param, "invalid_value");
  out->kind = Kind::kRegex;
  out->text = *regex;
  return Status::Ok();
}

/// {"json_object": true}: any object.
Status ReadObject(const JsonValue& value, const std::string& param, AnswerFormat* out) {
  bool wanted = false;
  RETURN_IF_ERROR(ReadBool(value, param, &wanted));
  out->kind = wanted ? Kind::kJsonObject : Kind::kText;
  return Status::Ok();
}

using Read = Status (*)(const JsonValue&, const std::string&, AnswerFormat*);

/// By the name within "structured_outputs".
const std::map<std::string, Read, std::less<>>& Readers() {
  static const std::map<std::string, Read, std::less<>> readers = {{"json", ReadSchema},
                                                                   {"regex", ReadRegex},
                                                                   {"choice", ReadChoice},
                                                                   {"grammar", ReadGrammar},
                                                                   {"json_object", ReadObject}};
  return readers;
}

/// The name within "structured_outputs" of a request field such as "guided_json"; "" for none.
std::string_view NameWithin(std::string_view key) {
  constexpr std::string_view kGuided = "guided_";
  if (key == "json_schema") return "json";
  if (key == "grammar") return key;
  return key.starts_with(kGuided) ? key.substr(kGuided.size()) : "";
}

Status ReadOne(Read read, const JsonValue& value, const std::string& param, std::optional<AnswerFormat>* out) {
  AnswerFormat format{.param = param};
  RETURN_IF_ERROR(read(value, param, &format));
  if (format.kind == Kind::kText) return Status::Ok();
  if (*out) return InvalidArgument("An answer has one form.", param, "mutually_exclusive_parameters");
  *out = std::move(format);
  return Status::Ok();
}

}  // namespace

bool IsGuidedField(std::string_view key) {
  return key == "structured_outputs" || Readers().find(NameWithin(key)) != Readers().end();
}

Status ReadGuidedField(const JsonValue& value, const std::string& param, IgnoredFields* ignored,
                       std::optional<AnswerFormat>* out) {
  if (IsEmpty(value)) return Status::Ok();
  if (param != "structured_outputs") return ReadOne(Readers().find(NameWithin(param))->second, value, param, out);
  if (!value.is_object()) return WrongType(value, param, "an object");
  for (const auto& [key, field] : value.object()) {
    if (field.is_null()) continue;
    const std::string at = param + "." + key;
    const auto reader = Readers().find(key);
    if (key == "structural_tag" && !IsEmpty(field)) return Unsupported(at, "structural tags");
    RETURN_IF_ERROR(reader != Readers().end() ? ReadOne(reader->second, field, at, out) : ignored->Unknown(at));
  }
  return Status::Ok();
}

}  // namespace ringside
