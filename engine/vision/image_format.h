// How a model's prompts contain images: the placeholder that its chat template emits, and the tokens that replace it.
// Immutable; known without weights (ModelFiles::images). THREAD: any.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "base/status.h"
#include "engine/text/tokenizer.h"
#include "engine/vision/picture.h"
#include "engine/vision/vision_spec.h"

namespace ringside {

class ImageFormat {
 public:
  /// ERRORS: kInvalidArgument, with the spelling, if the tokenizer lacks a marker.
  static Result<ImageFormat> Make(const VisionSpec& spec, const TokenizerData& tokenizer);

  /// The token that a chat template emits for an image, once for each.
  TokenId placeholder() const { return placeholder_; }
  /// Text on both sides of these tokens, which is tokenized with the text next to it.
  const std::string& text_around() const { return spec_.markers.around; }
  /// All tokens that replace the placeholder: one id of ImageToken or GridImageToken for each of the tower's rows, in
  /// order, with markers before, between and after them. ERRORS: kInvalidArgument for a picture without pixels, with
  /// more than limits::kMaxImagePixels, or whose sides are in too unequal a ratio.
  Result<std::vector<TokenId>> Tokens(const Picture& picture) const;
  /// As above, for a picture of this size, with the digest of its file.
  Result<std::vector<TokenId>> Tokens(int64_t width, int64_t height, const std::array<uint8_t, 32>& digest) const;

 private:
  ImageFormat() = default;

  VisionSpec spec_;
  TokenId placeholder_ = -1;
  std::optional<TokenId> begin_, row_end_, end_;  // markers
};

}  // namespace ringside
