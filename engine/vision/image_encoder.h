// The vision tower of a model and the rows of recent pictures. THREAD: the backend's.
#pragma once

#include <cstdint>
#include <list>
#include <memory>

#include "engine/vision/image_rows.h"
#include "engine/vision/picture.h"
#include "engine/vision/vision_tower.h"

namespace ringside {

class ImageEncoder {
 public:
  /// `row_products`: multiplications of a row of the text network, without attention: the unit of work.
  ImageEncoder(std::unique_ptr<VisionTower> tower, int64_t row_products)
      : tower_(std::move(tower)), row_products_(row_products) {}

  int64_t weight_bytes() const { return tower_->weight_bytes(); }
  /// The rows of a picture; null while they are incomplete. Computes layers worth about `rows` rows of the text
  /// network, at least one layer, of this picture or of the one that was started earlier, and adds the work to
  /// `*spent`.
  std::shared_ptr<const ImageRows> Encode(const Picture& picture, int64_t rows, int64_t* spent);

 private:
  static constexpr size_t kMaxKeptBytes = size_t{256} << 20;

  struct Kept {
    std::array<uint8_t, 32> digest;
    std::shared_ptr<const ImageRows> rows;
  };

  std::shared_ptr<const ImageRows> Find(const std::array<uint8_t, 32>& digest);
  void Keep(std::shared_ptr<const ImageRows> rows);

  const std::unique_ptr<VisionTower> tower_;
  const int64_t row_products_;
  std::array<uint8_t, 32> current_{};  // of the picture that the tower computes
  std::list<Kept> kept_;               // most recently used first; turns may hold more
};

}  // namespace ringside
