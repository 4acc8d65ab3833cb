// Images in a rendering. A message's content has kImageByte in place of an image, through any template; then the markup
// that the template writes for an image takes its place, with the model's tokens of this image. Pure. THREAD: any.
#pragma once

#include <string_view>
#include <vector>

#include "base/status.h"
#include "session/chat/templates/chat_template.h"

namespace ringside {

/// Never part of UTF-8, so no text from outside contains it.
inline constexpr char kImageByte = '\xFF';

/// Replaces each kImageByte by `markup`, whose part `placeholder` becomes a piece with the image's tokens, with the
/// text `around` on both sides. `images`: the tokens of each image, in order. ERRORS: kInvalidArgument
/// (unsupported_value) if the rendering does not have each image once.
Status PlaceImages(std::string_view markup, std::string_view placeholder, std::string_view around,
                   std::vector<std::vector<TokenId>> images, Rendering* rendering);

}  // namespace ringside
