// Images of requests, and the pictures of turns.
#include <fmt/format.h>

#include <chrono>
#include <optional>
#include <utility>

#include "base/limits.h"
#include "base/request_watch.h"
#include "session/pictures/image_source.h"
#include "session/pictures/picture_reader.h"
#include "session/table/table_state.h"

namespace ringside {
namespace {

/// The file of an image: the bytes of its source, or those at its URL.
Result<std::string> ReadFile(PictureReader& pictures, const std::string& owner, const HoldBytes& hold,
                             NewImage* image) {
  if (image->base64 || !pictures.fetches() || IsDataUrl(image->source)) {
    return ReadImageSource(image->source, image->base64, image->param);
  }
  return pictures.Fetch(owner, image->source, image->param, [&](int64_t bytes) -> Status {
    ASSIGN_OR_RETURN(HeldBytes held, hold(bytes));
    image->held = std::make_shared<const HeldBytes>(std::move(held));
    return Status::Ok();
  });
}

Status ReadImage(const SessionContext& model, const std::string& owner, const HoldBytes& hold, NewImage* image) {
  RETURN_IF_ERROR(image->fault);
  ASSIGN_OR_RETURN(std::string bytes, ReadFile(*model.options.pictures, owner, hold, image));
  image->source = {};
  const Sha256Digest digest = Sha256(bytes);
  std::optional<HeldBytes> held;  // while it is decoded
  const auto charge = [&](int64_t decoded) -> Status {
    ASSIGN_OR_RETURN(held, hold(decoded));
    return Status::Ok();
  };
  ASSIGN_OR_RETURN(const std::shared_ptr<const Picture> picture,
                   model.options.pictures->Read(owner, bytes, digest, image->param, charge));
  const auto tokens = model.codec.images->Tokens(picture->width, picture->height, digest);
  if (!tokens.ok()) return InvalidArgument(tokens.status().message(), image->param, "invalid_value");
  image->image.file = std::make_shared<const ImageFile>(
      ImageFile{.bytes = std::move(bytes), .width = picture->width, .height = picture->height, .digest = digest});
  return Status::Ok();
}

}  // namespace

Status ReadImages(const SessionContext& model, const std::string& owner, const HoldBytes& hold,
                  std::vector<NewItem>* items) {
  using Clock = std::chrono::steady_clock;
  const auto deadline = Clock::now() + std::chrono::seconds(limits::kMaxImageSecondsPerRequest);
  int64_t count = 0, fetched = 0;
  for (NewItem& item : *items) {
    const bool reads = model.codec.images != nullptr && model.options.pictures != nullptr &&
                       (item.role == ChatRole::kUser || item.role == ChatRole::kTool);
    for (NewImage& image : item.images) {
      if (image.image.file != nullptr) continue;  // of an earlier item
      if (!reads) return image.refusal;
      if (++count > limits::kMaxImagesPerRequest) {
        return InvalidArgument(fmt::format("A request has at most {} images.", limits::kMaxImagesPerRequest),
                               image.param, "array_above_max_length");
      }
      RETURN_IF_ERROR(ReadImage(model, owner, hold, &image));
      if (image.held != nullptr) fetched += std::ssize(image.image.file->bytes);
      if (fetched > limits::kImageRequestBytes) {  // a short request must not bring more than one that holds its images
        return InvalidArgument(
            fmt::format("The images at a request's URLs have at most {} MiB.", limits::kImageRequestBytes >> 20),
            image.param, "image_limit_exceeded");
      }
      if (RequestWatch::ClientLeft()) return {StatusCode::kCancelled, "The client disconnected."};
      if (Clock::now() > deadline) {
        return InvalidArgument("Decoding the request's images takes too long.", image.param, "invalid_value");
      }
    }
  }
  return Status::Ok();
}

Status LoadPictures(const SessionContext& model, const std::string& owner, const HoldBytes& hold,
                    const std::vector<ItemImage>& images, TurnRequest* request) {
  if (images.empty()) return Status::Ok();
  if (model.options.pictures == nullptr) return Unavailable("The server has no image decoder.");
  // Charged while the engine has one of the pictures.
  struct Held {
    std::shared_ptr<const Picture> picture;
    std::shared_ptr<const HeldBytes> charge;
  };
  int64_t bytes = 0;
  for (const ItemImage& image : images) bytes += image.file->decoded_bytes();
  if (bytes > limits::kMaxTurnPictureBytes) {
    return InvalidArgument(fmt::format("The conversation's images have {} million pixels; a turn reads at most {}.",
                                       bytes / 3'000'000, limits::kMaxTurnPictureBytes / 3'000'000),
                           "input", "image_limit_exceeded");
  }
  ASSIGN_OR_RETURN(HeldBytes held, hold(bytes));
  const auto charge = std::make_shared<const HeldBytes>(std::move(held));
  for (size_t i = 0; i < images.size(); ++i) {
    const ImageFile& file = *images[i].file;
    ASSIGN_OR_RETURN(std::shared_ptr<const Picture> picture,
                     model.options.pictures->Read(owner, file.bytes, file.digest, "input", [&](int64_t decoded) {
                       const bool same = decoded == file.decoded_bytes();
                       return same ? Status::Ok() : Corruption("An image has another size than before.");
                     }));
    if (picture->width != file.width || picture->height != file.height) {
      return Corruption("An image has another size than before.");
    }
    const Picture* const pixels = picture.get();
    const auto both = std::make_shared<Held>(Held{std::move(picture), charge});
    request->images[i].picture = std::shared_ptr<const Picture>(both, pixels);
  }
  return Status::Ok();
}

}  // namespace ringside
