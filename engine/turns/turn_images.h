// The images of a turn's timeline and their rows, which replace the embeddings of image tokens. Owned by RunningTurn.
// THREAD: engine.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "base/status.h"
#include "engine/sequence.h"
#include "engine/text/tokenizer.h"
#include "engine/turn_request.h"
#include "engine/vision/image_grid.h"
#include "engine/vision/image_input.h"
#include "engine/vision/image_rows.h"

namespace ringside {

class TurnImages {
 public:
  /// `timeline`: all tokens that may contain images. REQUIRES: `images` outlives it; positions ascend.
  TurnImages(std::span<const ImageInput> images, std::span<const TokenId> timeline)
      : images_(images), grids_(FindImageGrids(timeline)), rows_(images.size()) {}

  std::span<const ImageGrid> grids() const { return grids_; }

  /// The image whose rows must be computed before the token at `position`; null if there is none, or if its rows are
  /// known. REQUIRES: an image token there belongs to an image.
  const ImageInput* FindPending(std::span<const TokenId> tokens, int64_t position) const;
  /// REQUIRES: `image` was returned by FindPending.
  void SetRows(const ImageInput& image, std::shared_ptr<const ImageRows> rows);
  /// The tokens of `chunk`, which starts at position `first`, up to the first one whose rows are not known.
  std::span<const TokenId> Limit(std::span<const TokenId> chunk, int64_t first) const;
  /// StepPart::image_rows of `count` tokens from `first` on. Valid until the next call. REQUIRES: their rows are known.
  std::span<const std::byte* const> RowsOf(std::span<const TokenId> tokens, int64_t first, int64_t count);
  /// ERRORS: kInvalidArgument if the sequence is to compute the row of an image that was not given.
  Status Check(const TurnRequest& request, const Sequence& sequence) const;

 private:
  std::optional<size_t> IndexAt(int64_t position) const;

  std::span<const ImageInput> images_;
  const std::vector<ImageGrid> grids_;
  std::vector<std::shared_ptr<const ImageRows>> rows_;  // by image; null = not computed yet
  std::vector<const std::byte*> pointers_;
};

}  // namespace ringside
