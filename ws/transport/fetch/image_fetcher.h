// Fetches images from the hosts that an operator has listed. A client chooses the URL, so that the server must not
// become a way into its own network: only listed origins are contacted, also after a redirect, and a name must resolve
// to public addresses. The address that was checked is the one that is connected to. Owned by the server.
// THREAD: any; blocks, so callers are on a worker, in a DiskWait. A fetch has an io_context of its own.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "base/limits.h"
#include "base/status.h"
#include "ws/transport/fetch/image_url.h"

namespace ringside {

struct ImageFetchOptions {
  std::vector<WebOrigin> hosts;  // listed ones
  int64_t max_bytes = limits::kMaxImageFileBytes;
  std::chrono::milliseconds time{10'000};  // of one image, redirects included
  int redirects = 3;
  int fetches = 8, fetches_of_owner = 2;  // at once
  std::string ca_file;                    // trusted authorities, PEM; "" = the system's
};

class ImageFetcher {
 public:
  /// Called with the bytes of the body before they are received.
  using Charge = std::function<Status(int64_t bytes)>;

  /// ERRORS: kInvalidArgument if the authorities cannot be read.
  static Result<std::unique_ptr<ImageFetcher>> Make(ImageFetchOptions options);
  ~ImageFetcher();
  ImageFetcher(const ImageFetcher&) = delete;
  ImageFetcher& operator=(const ImageFetcher&) = delete;

  /// Returns the file at `url`. Its type is not checked: the decoder does.
  /// ERRORS: kInvalidArgument: image_url_not_allowed for an origin that is not listed or an address that is not public,
  /// invalid_image_url for a fetch that fails; kOverloaded if the owner has too many; as `charge`.
  Result<std::string> Fetch(const std::string& owner, std::string_view url, const Charge& charge);

 private:
  class Place;
  struct Tls;
  ImageFetcher(ImageFetchOptions options, std::unique_ptr<Tls> tls);
  Status CheckListed(const WebOrigin& origin) const;

  const ImageFetchOptions options_;
  const std::unique_ptr<Tls> tls_;
  std::mutex mutex_;
  std::condition_variable freed_;
  int fetches_ = 0;
  std::map<std::string, int> fetches_of_;  // by owners with at least one
};

}  // namespace ringside
