#include "ws/fields/request_size.h"

#include <algorithm>
#include <array>
#include <string>

namespace ringside {
namespace {

constexpr std::array<std::string_view, 5> kItemLists = {"messages", "input", "items", "item", "response"};

size_t StringBytes(const JsonValue* value) { return value == nullptr ? 0 : value->string().size(); }

size_t PartBytes(const JsonValue& part) {
  const JsonValue* const type = part.Find("type");
  if (type == nullptr) return 0;
  if (type->string() == "image") {
    const JsonValue* const source = part.Find("source");
    return source == nullptr ? 0 : std::max(StringBytes(source->Find("data")), StringBytes(source->Find("url")));
  }
  if (type->string() != "input_image" && type->string() != "image_url") return 0;
  const JsonValue* const image = part.Find("image_url");
  if (image == nullptr) return 0;
  return image->is_object() ? StringBytes(image->Find("url")) : StringBytes(image);
}

/// Of a message's content or a tool's result: parts, and results with parts of their own.
size_t ContentBytes(const JsonValue* content) {
  size_t bytes = 0;
  if (content == nullptr) return 0;
  for (const JsonValue& part : content->array()) bytes += PartBytes(part) + ContentBytes(part.Find("content"));
  return bytes;
}

size_t ListBytes(const JsonValue* images) {
  size_t bytes = 0;
  if (images == nullptr) return 0;
  for (const JsonValue& image : images->array()) bytes += image.string().size();
  return bytes;
}

size_t ItemBytes(const JsonValue& item) {
  return ContentBytes(item.Find("content")) + ContentBytes(item.Find("output")) + ListBytes(item.Find("images"));
}

}  // namespace

size_t ImageBytesOf(const JsonValue& request) {
  size_t bytes = ListBytes(request.Find("images"));
  for (const std::string_view key : kItemLists) {
    const JsonValue* const value = request.Find(key);
    if (value == nullptr) continue;
    if (key == "response") bytes += ImageBytesOf(*value);
    if (key == "item") bytes += ItemBytes(*value);
    for (const JsonValue& item : value->array()) bytes += ItemBytes(item);
  }
  return bytes;
}

Result<JsonValue> ParseRequest(std::string_view text) {
  constexpr auto kMost = static_cast<size_t>(limits::kMaxMessageBytes);
  ASSIGN_OR_RETURN(JsonValue request, ParseJson(text));
  if (text.size() <= kMost || text.size() - ImageBytesOf(request) <= kMost) return request;
  return InvalidArgument("The request has more than " + std::to_string(kMost >> 20) + " MiB without its images.", "",
                         "request_too_large");
}

}  // namespace ringside
