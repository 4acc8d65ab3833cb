// The decoder of clients' images. THREAD: any.
#pragma once

#include <memory>

#include "base/status.h"
#include "session/pictures/picture_reader.h"
#include "ws/config/config.h"

namespace ringside {

/// Null, with a warning, if the decoder's program is not installed: images are refused then.
/// ERRORS: as ImageFetcher::Make, if hosts of images are listed.
Result<std::shared_ptr<PictureReader>> OpenPictures(const ServerConfig& config);

}  // namespace ringside
