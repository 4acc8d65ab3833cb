#include "engine/turns/turn_images.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/check.h"
#include "engine/vision/image_tokens.h"

namespace ringside {

std::optional<size_t> TurnImages::IndexAt(int64_t position) const {
  const auto after = std::ranges::upper_bound(images_, position, {}, &ImageInput::position);
  if (after == images_.begin()) return std::nullopt;
  const auto at = after - 1;
  if (position >= at->position + at->tokens) return std::nullopt;
  return static_cast<size_t>(at - images_.begin());
}

Status TurnImages::Check(const TurnRequest& request, const Sequence& sequence) const {
  const std::span<const TokenId> tokens = request.tokens;
  for (int64_t position = sequence.computed(); position < std::ssize(tokens); ++position) {
    if (!IsImageToken(tokens[static_cast<size_t>(position)])) continue;
    if (IndexAt(position) || !sequence.WillCompute(position)) continue;
    return InvalidArgument(fmt::format("the image at token {} must be computed again and was not given; send it",
                                       position - request.virtual_tokens),
                           "input", "image_missing");
  }
  return Status::Ok();
}

const ImageInput* TurnImages::FindPending(std::span<const TokenId> tokens, int64_t position) const {
  if (position >= std::ssize(tokens) || !IsImageToken(tokens[static_cast<size_t>(position)])) return nullptr;
  const size_t index = IndexAt(position).value();
  return rows_[index] == nullptr ? &images_[index] : nullptr;
}

void TurnImages::SetRows(const ImageInput& image, std::shared_ptr<const ImageRows> rows) {
  rows_[static_cast<size_t>(&image - images_.data())] = std::move(rows);
}

std::span<const TokenId> TurnImages::Limit(std::span<const TokenId> chunk, int64_t first) const {
  for (size_t i = 0; i < chunk.size(); ++i) {
    if (!IsImageToken(chunk[i])) continue;
    if (rows_[IndexAt(first + static_cast<int64_t>(i)).value()] == nullptr) return chunk.first(i);
  }
  return chunk;
}

std::span<const std::byte* const> TurnImages::RowsOf(std::span<const TokenId> tokens, int64_t first, int64_t count) {
  pointers_.clear();
  for (size_t i = 0; i < images_.size(); ++i) {
    const auto [position, length, picture] = images_[i];
    if (position + length <= first || position >= first + count) continue;
    int64_t row = 0;
    for (int64_t p = position; p < std::min(position + length, first + count); ++p) {
      if (!IsImageToken(tokens[static_cast<size_t>(p)])) continue;
      if (p >= first) {
        CHECK(rows_[i] != nullptr && row < rows_[i]->rows());
        pointers_.push_back(rows_[i]->Row(row));
      }
      ++row;
    }
  }
  return pointers_;
}

}  // namespace ringside
