// The decoder of clients' images. THREAD: any.
#pragma once

#include <memory>

#include "session/pictures/picture_reader.h"

namespace ringside {

/// Null, with a warning, if the decoder's program is not installed: images are refused then.
std::shared_ptr<PictureReader> OpenPictures();

}  // namespace ringside
