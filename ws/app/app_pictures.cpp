#include "ws/app/app_pictures.h"

#include <string>

#include "base/log.h"
#include "session/pictures/image_decoder.h"

namespace ringside {

std::shared_ptr<PictureReader> OpenPictures() {
  std::string program = ImageDecoder::FindProgram();
  if (program.empty()) {
    LogWarning("images are refused: ringside-image-decoder is neither beside this program nor in ../libexec/ringside");
    return nullptr;
  }
  const auto decoder = std::make_shared<ImageDecoder>(ImageDecoderOptions{.program = std::move(program)});
  return std::make_shared<PictureReader>(
      [decoder](const std::string& owner, std::string_view file, const ChargePicture& charge) {
        return decoder->Decode(owner, file, charge);
      });
}

}  // namespace ringside
