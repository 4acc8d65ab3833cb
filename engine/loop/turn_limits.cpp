#include "engine/loop/turn_limits.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "base/check.h"
#include "base/limits.h"
#include "base/refusals/context_overflow.h"
#include "cache/store/tiered_store.h"
#include "engine/loop/slot_table.h"
#include "engine/vision/image_format.h"
#include "engine/vision/image_tokens.h"

namespace ringside {

Status TurnLimits::Accept(TurnRequest* request) const {
  RETURN_IF_ERROR(Check(*request));
  KeepImagesWhole(request);
  PrependVirtualTokens(request);
  return CheckBeams(*request);
}

int64_t TurnLimits::SessionLimit(const TurnRequest& request) const {
  int64_t limit = request.session_len > 0 ? std::min(request.session_len, options_.session_len) : options_.session_len;
  const int64_t positions = shape_.position_limit;
  return positions > 0 ? std::min(limit, positions - network_.virtual_tokens(request.adapter)) : limit;
}

// Rows on both sides of the border between the pinned tokens and the ring do not see later ones of the other side.
void TurnLimits::KeepImagesWhole(TurnRequest* request) const {
  int64_t& pinned = request->window.pinned;
  const std::span<const TokenId> tokens = request->tokens;
  if (shape_.whole_image_tokens == 0 || pinned >= std::ssize(tokens)) return;
  if (!IsImageToken(tokens[static_cast<size_t>(pinned)])) return;
  while (pinned > 0 && IsImageToken(tokens[static_cast<size_t>(pinned - 1)])) --pinned;
}

void TurnLimits::PrependVirtualTokens(TurnRequest* request) const {
  const int64_t count = request->virtual_tokens = network_.virtual_tokens(request->adapter);
  if (count == 0) return;
  std::vector<TokenId> ids(static_cast<size_t>(count));
  std::iota(ids.begin(), ids.end(), static_cast<TokenId>(shape_.vocab));
  request->tokens.insert(request->tokens.begin(), ids.begin(), ids.end());
  for (int64_t& start : request->message_starts) start += count;
  for (ImageInput& image : request->images) image.position += count;
  request->window.pinned += count;
  if (request->known_tokens > 0) request->known_tokens += count;
}

Status TurnLimits::Check(const TurnRequest& request) const {
  if (request.sink == nullptr) return InvalidArgument("a turn needs a sink");
  if (request.owner.size() > TieredStore::kMaxOwnerBytes) return InvalidArgument("the owner's name is too long");
  if (request.tokens.empty()) return InvalidArgument("the input is empty", "input");
  if (request.adapter < 0 || request.adapter > shape_.adapters) {
    return InvalidArgument(fmt::format("there is no adapter {}", request.adapter), "model");
  }
  const auto length = static_cast<int64_t>(request.tokens.size());
  if (const int64_t limit = SessionLimit(request); length > limit) {
    return ContextOverflow{.limit = limit, .tokens = length}.ToStatus();
  }
  const int64_t vocab = shape_.vocab;
  const auto unknown =
      std::ranges::find_if(request.tokens, [&](TokenId id) { return id < 0 || (id >= vocab && !IsImageToken(id)); });
  if (unknown != request.tokens.end()) return InvalidArgument(fmt::format("no token has the id {}", *unknown), "input");
  if (request.window.pinned < 0 || request.window.pinned > options_.pinned_max) {
    return InvalidArgument(fmt::format("pinned tokens must be 0 to {}", options_.pinned_max), "pinned");
  }
  if (shape_.encodes && (request.window.pinned == 0 || request.window.pinned >= length)) {
    return InvalidArgument("an encoder's input must be exactly the pinned tokens, with at least one token after it",
                           "pinned");
  }
  if (shape_.encodes && request.scored) {
    return InvalidArgument("prompt scoring is not available for an encoder's input", "logprobs", "unsupported_value");
  }
  if (request.window.memory_len < 1 || request.window.memory_len > options_.memory_len) {
    return InvalidArgument(fmt::format("memory_len must be 1 to {}", options_.memory_len), "memory_len");
  }
  if (request.max_tokens < -1) return InvalidArgument("max_tokens must not be negative", "max_output_tokens");
  if (request.scored && request.sampling.logprobs < 0)
    return InvalidArgument("prompt scoring requires `logprobs`", "logprobs");
  if (request.scored && length > request.window.memory_len + request.window.pinned) {
    return ContextOverflow{.limit = request.window.memory_len + request.window.pinned,
                           .tokens = length,
                           .prompt = true,
                           .advice = "Prompt scoring is limited to one window (--memory-len)."}
        .ToStatus();
  }
  if (request.scored && network_.virtual_tokens(request.adapter) > 0) {
    return InvalidArgument("prompt scoring is not available with a soft-prompt adapter", "logprobs",
                           "unsupported_value");
  }
  RETURN_IF_ERROR(CheckImages(request));
  RETURN_IF_ERROR(CheckEmbedded(request));
  const auto& starts = request.message_starts;
  if (!std::is_sorted(starts.begin(), starts.end()) || (!starts.empty() && starts.front() < 0)) {
    return InvalidArgument("message starts must ascend", "message_starts");
  }
  return request.sampling.Validate(vocab);
}

Status TurnLimits::CheckImages(const TurnRequest& request) const {
  const bool has = std::ranges::any_of(request.tokens, IsImageToken);
  if (!has && request.images.empty()) return Status::Ok();
  const ImageFormat* format = network_.image_format();
  if (format == nullptr) return InvalidArgument("the model does not read images", "input", "unsupported_value");
  if (request.scored) {
    return InvalidArgument("prompt scoring is not available for images", "logprobs", "unsupported_value");
  }
  if (std::ssize(request.images) > limits::kMaxTurnImages) {
    return InvalidArgument(
        fmt::format("the input has {} images; at most {} are allowed", request.images.size(), limits::kMaxTurnImages),
        "input");
  }
  const std::span<const TokenId> all = request.tokens;
  std::vector<bool> covered(all.size());
  int64_t end = 0;
  for (const ImageInput& image : request.images) {
    if (image.picture == nullptr || image.position < end || image.tokens < 1 ||
        image.tokens > std::ssize(all) - image.position) {
      return InvalidArgument(
          fmt::format("the image at token {} is outside the input, or overlaps the one before it", image.position),
          "input");
    }
    ASSIGN_OR_RETURN(const std::vector<TokenId> tokens, format->Tokens(*image.picture));
    const auto at = all.subspan(static_cast<size_t>(image.position), static_cast<size_t>(image.tokens));
    if (!std::ranges::equal(tokens, at)) {
      return InvalidArgument(fmt::format("the tokens at {} are not those of the image", image.position), "input");
    }
    end = image.position + image.tokens;
    std::fill_n(covered.begin() + image.position, image.tokens, true);
  }
  for (auto i = static_cast<size_t>(std::clamp<int64_t>(request.known_tokens, 0, std::ssize(all))); i < all.size();
       ++i) {
    if (!IsImageToken(all[i]) || covered[i]) continue;
    return InvalidArgument(fmt::format("the image at token {} was not given", i), "input", "image_missing");
  }
  return Status::Ok();
}

Status TurnLimits::CheckEmbedded(const TurnRequest& request) const {
  if (!request.embedded) return Status::Ok();
  CHECK(request.max_tokens == 0 && !request.scored);
  if (shape_.hidden == 0) {
    return InvalidArgument("embeddings are not available for a model with an encoder", "model", "unsupported_value");
  }
  if (network_.virtual_tokens(request.adapter) > 0) {
    return InvalidArgument("embeddings are not available with a soft-prompt adapter", "model", "unsupported_value");
  }
  const int64_t shown = request.window.memory_len + request.window.pinned, length = std::ssize(request.tokens);
  if (length <= shown) return Status::Ok();
  return ContextOverflow{.limit = shown, .tokens = length, .prompt = true, .advice = "See --memory-len."}.ToStatus();
}

Status TurnLimits::CheckBeams(TurnRequest& request) const {
  const BeamParams& beams = request.sampling.beams;
  if (!beams.searches() || request.max_tokens == 0) return Status::Ok();
  if (!shape_.state.empty()) {
    return InvalidArgument("beam search is not available for a model with recurrent layers", "beam_width",
                           "unsupported_value");
  }
  if (!shape_.branches) {
    return InvalidArgument("beam search needs a network on one device, without an encoder", "beam_width",
                           "unsupported_value");
  }
  if (request.grammar != nullptr) {
    return InvalidArgument("beam search supports neither answer formats nor tools", "beam_width", "unsupported_value");
  }
  if (request.scored)
    return InvalidArgument("beam search does not return log probabilities", "logprobs", "unsupported_value");
  const auto length = static_cast<int64_t>(request.tokens.size());
  const RingWindow& window = request.window;
  const int64_t most = std::min(window.memory_len, limits::kMaxBeamTokens);
  if (request.max_tokens > most) {
    return InvalidArgument(fmt::format("with beam search an answer has at most {} tokens", most), "max_output_tokens",
                           "unsupported_value");
  }
  if (request.max_tokens < 0) request.max_tokens = most;
  request.max_tokens =
      std::min(request.max_tokens, std::max<int64_t>(1, SessionLimit(request) + request.virtual_tokens - length));
  if (length < window.pinned || pool_.shape().ring_rows() < window.memory_len + KvShape::kTile) {
    return InvalidArgument(
        "beam search needs a prompt longer than the pinned tokens, and a ring 16 rows longer than the window",
        "beam_width", "unsupported_value");
  }
  const int64_t bytes = pool_.BytesFor(window, length + request.max_tokens + 1) +
                        (beams.width + 1) * BeamBytes(pool_, request.max_tokens);
  if (beams.width + 2 > pool_.slots() || bytes > pool_.memory_bytes()) {
    return InvalidArgument(
        fmt::format("{} beams of {} tokens take {} slots and {} bytes of caches; there are {} and {}", beams.width,
                    request.max_tokens, beams.width + 2, bytes, pool_.slots(), pool_.memory_bytes()),
        "beam_width", "unsupported_value");
  }
  return Status::Ok();
}

}  // namespace ringside
