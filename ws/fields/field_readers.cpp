#include "ws/fields/field_readers.h"

#include <cmath>

namespace ringside {

Status UnknownParameter(std::string_view param) {
  return InvalidArgument("Unknown parameter: " + Quoted(param) + ".", std::string(param), "unknown_parameter");
}

Status WrongType(const JsonValue& value, std::string_view param, std::string_view expected) {
  return InvalidArgument("Invalid type for " + Quoted(param) + ": expected " + std::string(expected) + ", but got " +
                             value.KindName() + " instead.",
                         std::string(param), "invalid_type");
}

Status Unsupported(std::string_view param, std::string_view what) {
  return InvalidArgument("This server does not support " + std::string(what) + ".", std::string(param),
                         "unsupported_value");
}

Status ReadBool(const JsonValue& value, std::string_view param, bool* out) {
  if (!value.is_bool()) return WrongType(value, param, "a boolean");
  *out = value.boolean();
  return Status::Ok();
}

Status ReadInteger(const JsonValue& value, std::string_view param, int64_t low, int64_t high, int64_t* out) {
  if (!value.is_number()) return WrongType(value, param, "an integer");
  int64_t integer = value.integer();
  if (!value.is_integer()) {
    const double number = value.number();
    if (number != std::floor(number)) return WrongType(value, param, "an integer");
    if (number < -9.2e18 || number > 9.2e18) {
      return InvalidArgument("Invalid " + Quoted(param) + ": out of range.", std::string(param), "invalid_value");
    }
    integer = static_cast<int64_t>(number);
  }
  if (integer < low || integer > high) {
    return InvalidArgument("Invalid " + Quoted(param) + ": " + std::to_string(integer) + " is not in [" +
                               std::to_string(low) + ", " + std::to_string(high) + "].",
                           std::string(param), "invalid_value");
  }
  *out = integer;
  return Status::Ok();
}

Status ReadNumber(const JsonValue& value, std::string_view param, double* out) {
  if (!value.is_number()) return WrongType(value, param, "a number");
  *out = value.number();
  return Status::Ok();
}

Status ReadString(const JsonValue& value, std::string_view param, std::string* out) {
  if (!value.is_string()) return WrongType(value, param, "a string");
  *out = value.string();
  return Status::Ok();
}

Status MissingParameter(std::string_view param) {
  return InvalidArgument("Missing required parameter: '" + std::string(param) + "'.", std::string(param),
                         "missing_required_parameter");
}

bool IsEmpty(const JsonValue& value) {
  switch (value.kind()) {
    case JsonValue::Kind::kNull:
      return true;
    case JsonValue::Kind::kBool:
      return !value.boolean();
    case JsonValue::Kind::kInteger:
    case JsonValue::Kind::kNumber:
      return value.number() == 0;
    case JsonValue::Kind::kString:
      return value.string().empty();
    case JsonValue::Kind::kArray:
      return value.array().empty();
    case JsonValue::Kind::kObject:
      return value.object().empty();
  }
  return false;
}

Status RequireEmpty(const JsonValue& value, const std::string& param) {
  return IsEmpty(value) ? Status::Ok() : Unsupported(param, "'" + param + "'");
}

}  // namespace ringside
