#include "session/pictures/image_decoder.h"

#include <fmt/format.h>

#include <array>
#include <filesystem>
#include <system_error>

#include "base/image_reply.h"
#include "session/pictures/decoder_process.h"
#include "session/pictures/image_source.h"

namespace ringside {
namespace {

namespace fs = std::filesystem;

Status StatusOf(ImageReply reply, int64_t max_pixels) {
  switch (reply) {
    case ImageReply::kDecoded:
      return Status::Ok();
    case ImageReply::kUnknownFormat:
      return InvalidImage("it is not JPEG, PNG or WebP");
    case ImageReply::kMalformed:
      return InvalidImage("it is damaged or cut");
    case ImageReply::kTooLarge:
      return InvalidImage(fmt::format("it has more than {} pixels", max_pixels));
    case ImageReply::kAnimated:
      return InvalidImage("it is animated; send one frame");
    case ImageReply::kOutOfMemory:
      return InvalidImage("decoding it takes too much memory");
  }
  return InvalidImage("it is damaged");
}

}  // namespace

/// One of the processes; waits until one is free.
class ImageDecoder::Place {
 public:
  Place(ImageDecoder& decoder, const std::string& owner) : decoder_(decoder), owner_(owner) {
    std::unique_lock lock(decoder_.mutex_);
    const auto free = [&] {
      return std::ssize(decoder_.owners_) < decoder_.options_.processes && !decoder_.owners_.contains(owner);
    };
    taken_ = decoder_.freed_.wait_for(lock, std::chrono::seconds(decoder_.options_.patience_seconds), free);
    if (taken_) decoder_.owners_.insert(owner);
  }
  ~Place() {
    if (!taken_) return;
    std::lock_guard lock(decoder_.mutex_);
    decoder_.owners_.erase(owner_);
    decoder_.freed_.notify_all();
  }
  Place(const Place&) = delete;
  Place& operator=(const Place&) = delete;
  bool taken() const { return taken_; }

 private:
  ImageDecoder& decoder_;
  const std::string& owner_;
  bool taken_ = false;
};

std::string ImageDecoder::FindProgram() {
  std::error_code failed;
  const fs::path own = fs::read_symlink("/proc/self/exe", failed).parent_path();
  if (failed) return "";
  for (const fs::path& folder : {own, own.parent_path() / "libexec/ringside"}) {
    const fs::path program = folder / "ringside-image-decoder";
    if (fs::exists(program, failed)) return program;
  }
  return "";
}

Result<Picture> ImageDecoder::Decode(const std::string& owner, std::string_view file, const ChargePicture& charge) {
  const Place place(*this, owner);
  if (!place.taken()) return Unavailable("The server decodes too many images now; retry.");
  return Run(file, charge);
}

Result<Picture> ImageDecoder::Run(std::string_view file, const ChargePicture& charge) const {
  const auto deadline = DecoderProcess::Clock::now() + std::chrono::seconds(options_.seconds);
  DecoderProcess process;
  RETURN_IF_ERROR(
      process.Start(options_.program, {std::to_string(options_.max_pixels), std::to_string(options_.memory_bytes),
                                       std::to_string(options_.seconds), std::to_string(limits::kMaxImageFileBytes)}));
  using Outcome = DecoderProcess::Outcome;
  const auto failure = [](Outcome outcome) {
    return InvalidImage(outcome == Outcome::kLate ? "decoding it takes too long" : "its decoder failed");
  };
  std::array<uint8_t, kImageReplyBytes> bytes;
  if (const Outcome read = process.Read(bytes, &file, deadline); read != Outcome::kRead) return failure(read);
  const std::optional<ImageReplyHeader> header = ParseImageReply(bytes, options_.max_pixels);
  if (!header) return failure(Outcome::kEnded);
  RETURN_IF_ERROR(StatusOf(header->status, options_.max_pixels));
  Picture picture{.width = header->width, .height = header->height};
  const int64_t size = picture.width * picture.height * kImageChannels;
  RETURN_IF_ERROR(charge(size));
  picture.rgb.resize(static_cast<size_t>(size));
  if (const Outcome read = process.Read(picture.rgb, &file, deadline); read != Outcome::kRead) return failure(read);
  return picture;
}

}  // namespace ringside
