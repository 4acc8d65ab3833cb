// Parses images of messages: parts of OpenAI's and Anthropic's APIs, lists of Ollama's; and writes them back. The table
// reads their bytes (NewImage). Pure.
// THREAD: any.
// ERRORS: with the `param` of the faulty field.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "session/turn/turn_spec.h"
#include "ws/fields/ignored_fields.h"
#include "ws/json/json_value.h"
#include "ws/json/json_writer.h"

namespace ringside {

/// Appends the image of a part: {"type": "input_image", "image_url"}, {"type": "image_url", "image_url": {"url"}} or
/// {"type": "image", "source"}. `refusal`: of a model that reads no images.
/// REQUIRES: the part is an object of one of these types.
Status ReadImagePart(const JsonValue& part, const std::string& param, Status refusal, IgnoredFields* ignored,
                     NewItem* out);
/// Appends the images of a list of base64 texts. An empty value has none.
Status ReadImageList(const JsonValue& value, const std::string& param, NewItem* out);

/// "data:image/png;base64,..."
std::string DataUrlOf(const ItemImage& image);
/// Writes the content parts of a message that is not the model's: its texts as input_text, images as input_image.
void WriteInputParts(JsonWriter& json, const Item& item);

}  // namespace ringside
