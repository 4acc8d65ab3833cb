// Image files to pictures: the cache, and the decoder for others; and images from URLs. Owned by the server, shared by
// its models. THREAD: any; blocks while an image is fetched or decoded (DiskWait).
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
/// Fetches the file at a URL; `charge` is called with its bytes before they are received.
using FetchImage =
    std::function<Result<std::string>(const std::string& owner, std::string_view url, const ChargePicture& charge)>;

class PictureReader {
 public:
  /// `fetch` may be null: URLs of other servers are refused.
  explicit PictureReader(DecodeImage decode, FetchImage fetch = nullptr)
      : decode_(std::move(decode)), fetch_(std::move(fetch)) {}
  /// ERRORS: as DecodeImage, with `param`; DiskWait's.
  Result<std::shared_ptr<const Picture>> Read(const std::string& owner, std::string_view file,
                                              const Sha256Digest& digest, const std::string& param,
                                              const ChargePicture& charge);
  bool fetches() const { return fetch_ != nullptr; }
  /// REQUIRES: fetches(). ERRORS: as FetchImage, with `param`; DiskWait's.
  Result<std::string> Fetch(const std::string& owner, std::string_view url, const std::string& param,
                            const ChargePicture& charge);

 private:
  const DecodeImage decode_;
  const FetchImage fetch_;
  PictureCache cache_{limits::kPictureCacheBytes};
};

}  // namespace ringside
