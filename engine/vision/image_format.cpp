#include "engine/vision/image_format.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/limits.h"
#include "engine/vision/image_tokens.h"

namespace ringside {
namespace {

constexpr int64_t kMaxAspectRatio = 200;

Result<std::optional<TokenId>> FindMarker(const TokenizerData& tokenizer, const std::string& spelling) {
  if (spelling.empty()) return std::optional<TokenId>();
  const auto found = std::ranges::find(tokenizer.tokens, spelling);
  if (found == tokenizer.tokens.end()) {
    return InvalidArgument(fmt::format("the tokenizer has no token '{}', which marks images", spelling));
  }
  return std::optional(static_cast<TokenId>(found - tokenizer.tokens.begin()));
}

}  // namespace

Result<ImageFormat> ImageFormat::Make(const VisionSpec& spec, const TokenizerData& tokenizer) {
  ASSIGN_OR_RETURN(const std::optional<TokenId> named, FindMarker(tokenizer, spec.markers.placeholder));
  const int64_t placeholder = named ? int64_t{*named} : spec.placeholder;
  if (placeholder < 0 || placeholder >= std::ssize(tokenizer.tokens)) {
    return InvalidArgument(
        fmt::format("the tokenizer has no token {}, which config.json names as that of images", placeholder));
  }
  ImageFormat format;
  format.spec_ = spec;
  format.placeholder_ = static_cast<TokenId>(placeholder);
  ASSIGN_OR_RETURN(format.begin_, FindMarker(tokenizer, spec.markers.begin));
  ASSIGN_OR_RETURN(format.row_end_, FindMarker(tokenizer, spec.markers.row_end));
  ASSIGN_OR_RETURN(format.end_, FindMarker(tokenizer, spec.markers.end));
  return format;
}

Result<std::vector<TokenId>> ImageFormat::Tokens(const Picture& picture) const {
  if (std::ssize(picture.rgb) != picture.width * picture.height * 3) {
    return InvalidArgument("an image's pixels do not fit its size", "input");
  }
  return Tokens(picture.width, picture.height, picture.digest);
}

Result<std::vector<TokenId>> ImageFormat::Tokens(int64_t width, int64_t height,
                                                 const std::array<uint8_t, 32>& digest) const {
  if (width < 1 || height < 1) return InvalidArgument("an image has no pixels", "input");
  if (width > limits::kMaxImagePixels || height > limits::kMaxImagePixels || width * height > limits::kMaxImagePixels) {
    return InvalidArgument(fmt::format("an image has {} x {} pixels; at most {} in all are allowed", width, height,
                                       limits::kMaxImagePixels),
                           "input");
  }
  if (std::max(width, height) > kMaxAspectRatio * std::min(width, height)) {
    return InvalidArgument(fmt::format("an image has {} x {} pixels; the ratio of its sides must be below {}", width,
                                       height, kMaxAspectRatio),
                           "input");
  }
  const PictureSize size = FitPicture(spec_, width, height);
  const int64_t columns = size.width / spec_.token_pixels(), rows = size.height / spec_.token_pixels();
  if (columns < 1 || rows < 1) {
    return InvalidArgument(fmt::format("an image has {} x {} pixels, too few for the model", width, height), "input");
  }
  std::vector<TokenId> tokens;
  const auto add = [&](const std::optional<TokenId>& marker) {
    if (marker) tokens.push_back(*marker);
  };
  add(begin_);
  for (int64_t i = 0; i < rows * columns; ++i) {
    if (i > 0 && i % columns == 0) add(row_end_);
    tokens.push_back(spec_.grids ? GridImageToken(digest, i, i % columns == 0) : ImageToken(digest, i));
  }
  add(end_);
  return tokens;
}

}  // namespace ringside
