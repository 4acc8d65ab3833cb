#include "ws/app/app_pictures.h"

#include <string>

#include "base/log.h"
#include "session/pictures/image_decoder.h"
#include "ws/transport/fetch/image_fetcher.h"

namespace ringside {

Result<std::shared_ptr<PictureReader>> OpenPictures(const ServerConfig& config) {
  std::string program = ImageDecoder::FindProgram();
  if (program.empty()) {
    LogWarning("images are refused: ringside-image-decoder is neither beside this program nor in ../libexec/ringside");
    return std::shared_ptr<PictureReader>();
  }
  const auto decoder = std::make_shared<ImageDecoder>(ImageDecoderOptions{.program = std::move(program)});
  FetchImage fetch;
  if (!config.image_hosts.empty()) {
    ASSIGN_OR_RETURN(auto made, ImageFetcher::Make({.hosts = config.image_hosts}));
    fetch = [fetcher = std::shared_ptr<ImageFetcher>(std::move(made))](const std::string& owner, std::string_view url,
                                                                       const ChargePicture& charge) {
      return fetcher->Fetch(owner, url, charge);
    };
  }
  return std::make_shared<PictureReader>(
      [decoder](const std::string& owner, std::string_view file, const ChargePicture& charge) {
        return decoder->Decode(owner, file, charge);
      },
      std::move(fetch));
}

}  // namespace ringside
