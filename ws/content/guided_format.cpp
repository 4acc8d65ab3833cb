#include "ws/content/guided_format.h"

#include "engine/grammar/tools/lark.h"
#include "ws/fields/field_readers.h"
#include "ws/json/json_text.h"
#include "ws/json/json_writer.h"

namespace ringside {
namespace {

using Kind = AnswerFormat::Kind;

/// A schema as an object or as text.
Status ReadGuidedSchema(const JsonValue& value, const std::string& param, AnswerFormat* out) {
  const Result<JsonValue> parsed = value.is_string() ? ParseJson(value.string()) : Result<JsonValue>(value);
  if (!parsed.ok() || !parsed->is_object()) return WrongType(value, param, "a JSON Schema");
  JsonWriter json;
  WriteJson(json, *parsed);
  out->kind = Kind::kJsonSchema;
  out->text = json.Take();
  return Status::Ok();
}

Status ReadGuidedRegex(const JsonValue& value, const std::string& param, AnswerFormat* out) {
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
Status ReadGuidedObject(const JsonValue& value, const std::string& param, AnswerFormat* out) {
  bool wanted = false;
  RETURN_IF_ERROR(ReadBool(value, param, &wanted));
  out->kind = wanted ? Kind::kJsonObject : Kind::kText;
  return Status::Ok();
}

using Read = Status (*)(const JsonValue&, const std::string&, AnswerFormat*);

Status ReadOne(Read read, const JsonValue& value, const std::string& param, std::optional<AnswerFormat>* out) {
  AnswerFormat format{.param = param};
  RETURN_IF_ERROR(read(value, param, &format));
  if (format.kind == Kind::kText) return Status::Ok();
  if (*out) return InvalidArgument("An answer has one form.", param, "mutually_exclusive_parameters");
  *out = std::move(format);
  return Status::Ok();
}

/// The field of one format. An empty value has no effect.
Field<std::optional<AnswerFormat>> Row(std::string name, FieldType type, Read read) {
  const auto read_one = [read](const JsonValue& value, const std::string& param, const FieldContext&,
                               std::optional<AnswerFormat>* out) {
    return IsEmpty(value) ? Status::Ok() : ReadOne(read, value, param, out);
  };
  return {std::move(name), type, read_one};
}

Fields<std::optional<AnswerFormat>> RowsWith(const std::string& prefix) {
  return {Row(prefix + "json", FieldType::kObject | FieldType::kString, ReadGuidedSchema),
          Row(prefix + "regex", FieldType::kString, ReadGuidedRegex),
          Row(prefix + "choice", FieldType::kArray, ReadChoice),
          Row(prefix + "grammar", FieldType::kString, ReadGrammar),
          Row(prefix + "json_object", FieldType::kBool, ReadGuidedObject)};
}

}  // namespace

const Fields<std::optional<AnswerFormat>>& GuidedFields() {
  using Table = FieldTable<std::optional<AnswerFormat>>;
  static const Table members(Join(RowsWith(""), Fields<void>{{"structural_tag", Refuse{.what = "structural tags"}}}));
  const auto read_members = [](const JsonValue& value, const std::string& param, const FieldContext& context,
                               std::optional<AnswerFormat>* out) {
    if (IsEmpty(value)) return Status::Ok();
    if (!value.is_object()) return WrongType(value, param, "an object");
    return members.Read(value, context, out, param + ".");
  };
  static const Fields<std::optional<AnswerFormat>> rows = Join(
      Fields<std::optional<AnswerFormat>>{
          {"structured_outputs", FieldType::kObject, read_members, FieldPolicy::kRead, members},
          Row("json_schema", FieldType::kObject | FieldType::kString, ReadGuidedSchema),
          Row("grammar", FieldType::kString, ReadGrammar),
      },
      RowsWith("guided_"));
  return rows;
}

}  // namespace ringside
