#include "session/pictures/picture_reader.h"

#include <utility>

#include "base/worker_pool.h"

namespace ringside {
namespace {

Status WithParam(const Status& why, const std::string& param) {
  return {why.code(), why.message(), why.param().empty() ? param : why.param(), why.reason()};
}

}  // namespace

Result<std::shared_ptr<const Picture>> PictureReader::Read(const std::string& owner, std::string_view file,
                                                           const Sha256Digest& digest, const std::string& param,
                                                           const ChargePicture& charge) {
  if (auto cached = cache_.Find(owner, digest)) return cached;
  ASSIGN_OR_RETURN(const DiskWait wait, DiskWait::Begin());
  Result<Picture> decoded = decode_(owner, file, charge);
  if (!decoded.ok()) return WithParam(decoded.status(), param);
  decoded->digest = digest;
  auto picture = std::make_shared<const Picture>(*std::move(decoded));
  cache_.Add(owner, picture);
  return picture;
}

Result<std::string> PictureReader::Fetch(const std::string& owner, std::string_view url, const std::string& param,
                                         const ChargePicture& charge) {
  ASSIGN_OR_RETURN(const DiskWait wait, DiskWait::Begin());
  Result<std::string> file = fetch_(owner, url, charge);
  if (!file.ok()) return WithParam(file.status(), param);
  return file;
}

}  // namespace ringside
