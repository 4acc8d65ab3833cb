// Messages with images on their way through a template. Pure. THREAD: any.
#pragma once

#include <span>
#include <string>

#include "base/status.h"
#include "session/chat/timeline/timeline.h"

namespace ringside {

/// The item's text as ChatMessage::content.
std::string ContentOf(const Item& item);
/// Gives the rendering of these items the tokens of their images.
/// ERRORS: kInvalidArgument (unsupported_value) if the model reads no images; as PlaceImages and ImageFormat::Tokens.
Status PlaceImagesOf(std::span<const Item> items, const Codec& codec, Rendering* rendering);

}  // namespace ringside
