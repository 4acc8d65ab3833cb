#include "engine/vision/image_encoder.h"

#include <algorithm>
#include <utility>

namespace ringside {

std::shared_ptr<const ImageRows> ImageEncoder::Find(const std::array<uint8_t, 32>& digest) {
  const auto found = std::ranges::find(kept_, digest, &Kept::digest);
  if (found == kept_.end()) return nullptr;
  kept_.splice(kept_.begin(), kept_, found);
  return found->rows;
}

void ImageEncoder::Keep(std::shared_ptr<const ImageRows> rows) {
  kept_.push_front({current_, std::move(rows)});
  size_t bytes = 0;
  const auto excess = std::ranges::find_if(std::next(kept_.begin()), kept_.end(), [&](const Kept& kept) {
    bytes += static_cast<size_t>(kept.rows->bytes());
    return bytes > kMaxKeptBytes;
  });
  kept_.erase(excess, kept_.end());
}

std::shared_ptr<const ImageRows> ImageEncoder::Encode(const Picture& picture, int64_t rows, int64_t* spent) {
  if (auto known = Find(picture.digest)) return known;
  int64_t left = rows;
  do {
    if (!tower_->busy()) {
      tower_->Start(picture);
      current_ = picture.digest;
    }
    const int64_t work = std::max<int64_t>(1, tower_->layer_products() / row_products_);
    const bool last = tower_->Advance();
    *spent += work;
    left -= work;
    if (last) Keep(std::make_shared<const ImageRows>(tower_->Finish()));
    if (auto known = Find(picture.digest)) return known;
  } while (left > 0);
  return nullptr;
}

}  // namespace ringside
