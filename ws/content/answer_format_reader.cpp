#include "ws/content/answer_format_reader.h"

#include <initializer_list>

#include "ws/fields/field_readers.h"
#include "ws/json/json_text.h"
#include "ws/json/json_writer.h"

namespace ringside {
namespace {

constexpr size_t kMaxNameBytes = 64;

Status CheckFields(const JsonValue& value, const std::string& param, std::initializer_list<std::string_view> known,
                   IgnoredFields* ignored) {
  for (const auto& [key, field] : value.object()) {
    bool found = false;
    for (const std::string_view name : known) found |= key == name;
    if (!found && !field.is_null()) RETURN_IF_ERROR(ignored->Unknown(param + "." + key));
  }
  return Status::Ok();
}

Status ReadText(const JsonValue& value, const std::string& param, const char* name, AnswerFormat* out) {
  out->param = param + "." + name;
  const JsonValue* text = value.Find(name);
  if (text == nullptr) {
    return InvalidArgument("Missing required parameter: '" + out->param + "'.", out->param,
                           "missing_required_parameter");
  }
  return ReadString(*text, out->param, &out->text);
}

/// {"type": "json_object"}, optionally with llama-server's "schema".
Status ReadObject(const JsonValue& value, const std::string& param, AnswerFormat* out) {
  const JsonValue* schema = value.Find("schema");
  out->kind = schema == nullptr ? AnswerFormat::Kind::kJsonObject : AnswerFormat::Kind::kJsonSchema;
  if (schema == nullptr) return Status::Ok();
  out->param = param + ".schema";
  if (!schema->is_object()) return WrongType(*schema, out->param, "an object");
  JsonWriter json;
  WriteJson(json, *schema);
  out->text = json.Take();
  return Status::Ok();
}

Status ReadSchema(const JsonValue& value, const std::string& param, AnswerFormat* out) {
  std::string name, description;
  const JsonValue *given = value.Find("name"), *schema = value.Find("schema"), *strict = value.Find("strict"),
                  *about = value.Find("description");
  for (const auto& [field, key] : {std::pair(given, ".name"), std::pair(schema, ".schema")}) {
    if (field != nullptr) continue;
    return InvalidArgument("Missing required parameter: '" + param + key + "'.", param + key,
                           "missing_required_parameter");
  }
  RETURN_IF_ERROR(ReadString(*given, param + ".name", &name));
  if (name.empty() || name.size() > kMaxNameBytes ||
      name.find_first_not_of("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-") != std::string::npos) {
    return InvalidArgument("A name must have 1 to 64 characters of A-Z a-z 0-9 _ -", param + ".name", "invalid_value");
  }
  out->name = std::move(name);
  if (about != nullptr) RETURN_IF_ERROR(ReadString(*about, param + ".description", &description));
  bool is_strict = true;  // every schema is enforced exactly, whatever this is
  if (strict != nullptr) RETURN_IF_ERROR(ReadBool(*strict, param + ".strict", &is_strict));
  if (!schema->is_object()) return WrongType(*schema, param + ".schema", "an object");
  JsonWriter json;
  WriteJson(json, *schema);
  out->text = json.Take();
  out->param = param + ".schema";
  return Status::Ok();
}

}  // namespace

Status ReadAnswerFormat(const JsonValue& value, const std::string& param, FormatShape shape, IgnoredFields* ignored,
                        AnswerFormat* out) {
  const JsonValue* type = value.is_object() ? value.Find("type") : nullptr;
  if (type == nullptr) return WrongType(value, param, "an object with a type");
  std::string name;
  RETURN_IF_ERROR(ReadString(*type, param + ".type", &name));
  AnswerFormat format{.param = param};
  if (name == "text") {
    RETURN_IF_ERROR(CheckFields(value, param, {"type"}, ignored));
  } else if (name == "json_object") {
    RETURN_IF_ERROR(CheckFields(value, param, {"type", "schema"}, ignored));
    RETURN_IF_ERROR(ReadObject(value, param, &format));
  } else if (name == "json_schema") {
    format.kind = AnswerFormat::Kind::kJsonSchema;
    if (shape == FormatShape::kFlat) {
      RETURN_IF_ERROR(CheckFields(value, param, {"type", "name", "schema", "strict", "description"}, ignored));
      RETURN_IF_ERROR(ReadSchema(value, param, &format));
    } else {
      const std::string inner = param + ".json_schema";
      const JsonValue* fields = value.Find("json_schema");
      RETURN_IF_ERROR(CheckFields(value, param, {"type", "json_schema"}, ignored));
      if (fields == nullptr) {
        return InvalidArgument("Missing required parameter: '" + inner + "'.", inner, "missing_required_parameter");
      }
      if (!fields->is_object()) return WrongType(*fields, inner, "an object");
      RETURN_IF_ERROR(CheckFields(*fields, inner, {"name", "schema", "strict", "description"}, ignored));
      RETURN_IF_ERROR(ReadSchema(*fields, inner, &format));
    }
  } else if (name == "regex") {
    format.kind = AnswerFormat::Kind::kRegex;
    RETURN_IF_ERROR(CheckFields(value, param, {"type", "regex"}, ignored));
    RETURN_IF_ERROR(ReadText(value, param, "regex", &format));
  } else if (name == "grammar") {
    format.kind = AnswerFormat::Kind::kGbnf;
    RETURN_IF_ERROR(CheckFields(value, param, {"type", "grammar"}, ignored));
    RETURN_IF_ERROR(ReadText(value, param, "grammar", &format));
  } else {
    return Unsupported(param + ".type", "a format of type '" + name.substr(0, 64) + "'");
  }
  *out = std::move(format);
  return Status::Ok();
}

std::string FormatObject(const AnswerFormat& format) {
  JsonWriter json;
  json.BeginObject();
  switch (format.kind) {
    case AnswerFormat::Kind::kText:
      json.Field("type", "text");
      break;
    case AnswerFormat::Kind::kJsonObject:
      json.Field("type", "json_object");
      break;
    case AnswerFormat::Kind::kJsonSchema:
      json.Field("type", "json_schema").Field("name", format.name).Key("schema").Raw(format.text).Field("strict", true);
      break;
    case AnswerFormat::Kind::kRegex:
      json.Field("type", "regex").Field("regex", format.text);
      break;
    case AnswerFormat::Kind::kGbnf:
      json.Field("type", "grammar").Field("grammar", format.text);
      break;
  }
  return json.EndObject().Take();
}

}  // namespace ringside
