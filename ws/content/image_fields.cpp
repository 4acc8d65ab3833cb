#include "ws/content/image_fields.h"

#include <utility>

#include "base/base64.h"
#include "ws/fields/field_readers.h"

namespace ringside {
namespace {

/// Reads the fields of an object that name an image; `known` have no effect here.
Status CheckImageFields(const JsonValue& object, const std::string& param,
                        std::initializer_list<std::string_view> known, IgnoredFields* ignored) {
  for (const auto& [key, value] : object.object()) {
    bool has_reader = value.is_null();
    for (const std::string_view name : known) has_reader |= key == name;
    if (!has_reader) RETURN_IF_ERROR(ignored->Unknown(param + "." + key.substr(0, kQuotedBytes)));
  }
  return Status::Ok();
}

Status ReadPlainSource(const JsonValue& object, std::string_view key, const std::string& param, NewImage* image) {
  const std::string place = param + "." + std::string(key);
  const JsonValue* const value = object.Find(key);
  if (value == nullptr || value->is_null()) return MissingParameter(place);
  image->param = place;
  return ReadString(*value, place, &image->source);
}

/// Anthropic's source of an image.
Status ReadSource(const JsonValue& source, const std::string& param, IgnoredFields* ignored, NewImage* image) {
  if (!source.is_object()) return WrongType(source, param, "an object");
  const JsonValue* const type = source.Find("type");
  if (type == nullptr) return MissingParameter(param + ".type");
  const std::string& name = type->string();
  if (name == "url") return ReadPlainSource(source, "url", param, image);
  if (name != "base64") return Unsupported(param + ".type", "images of type " + Quoted(name.substr(0, kQuotedBytes)));
  RETURN_IF_ERROR(CheckImageFields(source, param, {"type", "media_type", "data"}, ignored));
  image->base64 = true;
  return ReadPlainSource(source, "data", param, image);
}

}  // namespace

Status ReadImagePart(const JsonValue& part, const std::string& param, Status refusal, IgnoredFields* ignored,
                     NewItem* out) {
  const std::string key = part.Find("type")->string() == "image" ? "source" : "image_url", place = param + "." + key;
  NewImage image{.param = place, .refusal = std::move(refusal)};
  RETURN_IF_ERROR(CheckImageFields(part, param, {"type", "cache_control", "detail", key}, ignored));
  const auto read = [&]() -> Status {
    const JsonValue* const value = part.Find(key);
    if (value == nullptr || value->is_null()) return MissingParameter(place);
    if (key == "source") return ReadSource(*value, place, ignored, &image);
    if (!value->is_object()) return ReadString(*value, place, &image.source);
    RETURN_IF_ERROR(CheckImageFields(*value, place, {"url", "detail"}, ignored));
    return ReadPlainSource(*value, "url", place, &image);
  };
  image.fault = read();
  AddImage(std::move(image), out);
  return Status::Ok();
}

Status ReadImageList(const JsonValue& value, const std::string& param, NewItem* out) {
  if (IsEmpty(value)) return Status::Ok();
  const Status refusal = RequireEmpty(value, param);
  if (!value.is_array()) return refusal;
  for (size_t i = 0; i < value.array().size(); ++i) {
    NewImage image{.base64 = true, .param = param + "[" + std::to_string(i) + "]", .refusal = refusal};
    image.fault = ReadString(value.array()[i], image.param, &image.source);
    AddImage(std::move(image), out);
  }
  return Status::Ok();
}

std::string DataUrlOf(const ItemImage& image) {
  const std::string& bytes = image.file->bytes;
  return "data:" + std::string(MediaTypeOf(bytes)) + ";base64," + EncodeBase64(bytes);
}

void WriteInputParts(JsonWriter& json, const Item& item) {
  const std::vector<std::string_view> texts = SplitAtImages(item.text, item.images.size());
  json.BeginArray();
  for (size_t i = 0; i < texts.size(); ++i) {
    if (i > 0) {
      json.BeginObject().Field("type", "input_image").Field("image_url", DataUrlOf(item.images[i - 1]));
      json.Field("detail", "auto").EndObject();
    }
    if (texts[i].empty() && texts.size() > 1) continue;
    json.BeginObject().Field("type", "input_text").Field("text", texts[i]).EndObject();
  }
  json.EndArray();
}

}  // namespace ringside
