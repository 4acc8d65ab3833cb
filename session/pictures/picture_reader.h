// Image files to pictures: the cache, and the decoder for others. Owned by the server, shared by its models.
// THREAD: any; blocks while an image is decoded (DiskWait).
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "base/limits.h"
#include "base/sha256.h"
#include "base/status.h"
#include "engine/vision/picture.h"
#include "session/pictures/picture_cache.h"

namespace ringside {

/// Called with the bytes of a decoded image before they are allocated.
/// ERRORS: ends the decoding.
using ChargePicture = std::function<Status(int64_t bytes)>;
/// Decodes a file, without the digest: ImageDecoder::Decode, or a test's.
using DecodeImage =
    std::function<Result<Picture>(const std::string& owner, std::string_view file, const ChargePicture& charge)>;

class PictureReader {
 public:
  explicit PictureReader(DecodeImage decode) : decode_(std::move(decode)) {}
  /// ERRORS: as DecodeImage, with `param`; DiskWait's.
  Result<std::shared_ptr<const Picture>> Read(const std::string& owner, std::string_view file,
                                              const Sha256Digest& digest, const std::string& param,
                                              const ChargePicture& charge);

 private:
  const DecodeImage decode_;
  PictureCache cache_{limits::kPictureCacheBytes};
};

}  // namespace ringside
