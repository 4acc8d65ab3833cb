// Decodes image files by running ringside-image-decoder for each, with limits of memory and time. Few processes run at
// once, and one per owner. Owned by the server. THREAD: any; blocks, so on workers only (DiskWait).
#pragma once

#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <set>
#include <string>
#include <string_view>

#include "base/limits.h"
#include "base/status.h"
#include "session/pictures/picture_reader.h"

namespace ringside {

struct ImageDecoderOptions {
  std::string program;  // path
  int64_t max_pixels = limits::kMaxImagePixels;
  int64_t memory_bytes = limits::kImageDecoderBytes;
  int64_t seconds = limits::kImageDecoderSeconds;
  int64_t processes = limits::kMaxImageDecoders;
  int64_t patience_seconds = limits::kImageDecoderPatienceSeconds;
};

class ImageDecoder {
 public:
  explicit ImageDecoder(ImageDecoderOptions options) : options_(std::move(options)) {}
  /// The program beside this one, or in its installation's libexec folder; "" if there is none.
  static std::string FindProgram();

  /// The picture of a file, without its digest.
  /// ERRORS: kInvalidArgument (invalid_value) for a file that is no image, is damaged, animated or above the limits of
  /// pixels, memory or time; kUnavailable if no process is free or can be started; as `charge`.
  Result<Picture> Decode(const std::string& owner, std::string_view file, const ChargePicture& charge);

 private:
  class Place;
  Result<Picture> Run(std::string_view file, const ChargePicture& charge) const;

  const ImageDecoderOptions options_;
  std::mutex mutex_;
  std::condition_variable freed_;
  std::set<std::string> owners_;  // of the running processes
};

}  // namespace ringside
