#include "session/chat/timeline/item_rendering.h"

#include <algorithm>
#include <utility>

#include "engine/vision/image_tokens.h"
#include "session/chat/templates/image_pieces.h"

namespace ringside {
namespace {

Result<std::vector<TokenId>> TokensOf(const ImageFormat& format, const ItemImage& image) {
  const ImageFile& file = *image.file;
  return format.Tokens(file.width, file.height, file.digest);
}

}  // namespace

std::string ContentOf(const Item& item) {
  if (item.images.empty()) return item.text;
  std::string content;
  const std::vector<std::string_view> texts = SplitAtImages(item.text, item.images.size());
  for (size_t i = 0; i < texts.size(); ++i) {
    if (i > 0) content.push_back(kImageByte);
    content += texts[i];
  }
  return content;
}

Status PlaceImagesOf(std::span<const Item> items, const Codec& codec, Rendering* rendering) {
  std::vector<std::vector<TokenId>> images;
  for (const Item& item : items) {
    if (!item.images.empty() && codec.images == nullptr) {
      return InvalidArgument("The conversation has images, which this model does not read.", "input",
                             "unsupported_value");
    }
    for (const ItemImage& image : item.images) {
      ASSIGN_OR_RETURN(images.emplace_back(), TokensOf(*codec.images, image));
    }
  }
  if (images.empty()) return Status::Ok();
  const std::string_view placeholder = codec.tokenizer.TokenName(codec.images->placeholder());
  return PlaceImages(codec.chat.image_markup(), placeholder, codec.images->text_around(), std::move(images), rendering);
}

Result<std::vector<PlacedImage>> Timeline::PlacedImages(const ImageFormat* format) const {
  std::vector<PlacedImage> placed;
  for (const Item& item : items_) {
    if (item.images.empty() || !item.rendered() || format == nullptr) continue;
    auto at = tokens_.begin() + item.token_begin;
    const auto end = tokens_.begin() + item.token_end;
    for (const ItemImage& image : item.images) {
      ASSIGN_OR_RETURN(const std::vector<TokenId> ids, TokensOf(*format, image));
      const auto found = std::search(at, end, ids.begin(), ids.end());
      if (found == end) break;
      placed.push_back({image, found - tokens_.begin(), std::ssize(ids)});
      at = found + std::ssize(ids);
    }
  }
  int64_t position = 0;  // everything before is in an image or in none
  const auto none_between = [&](int64_t to) {
    return std::none_of(tokens_.begin() + position, tokens_.begin() + to, IsImageToken);
  };
  for (const PlacedImage& image : placed) {
    if (!none_between(image.position)) return Corruption("timeline: tokens of an image that it does not have");
    position = image.position + image.tokens;
  }
  if (!none_between(std::ssize(tokens_))) return Corruption("timeline: tokens of an image that it does not have");
  return placed;
}

}  // namespace ringside
