#include "ws/transport/fetch/image_fetcher.h"

#include <algorithm>
#include <boost/asio/ssl/context.hpp>
#include <optional>
#include <utility>

#include "ws/transport/fetch/fetch_hop.h"

namespace ringside {
namespace {

Status NotAllowed(const std::string& why) { return InvalidArgument(why, "", "image_url_not_allowed"); }

}  // namespace

struct ImageFetcher::Tls {
  boost::asio::ssl::context context{boost::asio::ssl::context::tls_client};
};

/// One of the fetches that may run at once.
class ImageFetcher::Place {
 public:
  Place(ImageFetcher& fetcher, const std::string& owner, FetchHop::Clock::time_point deadline)
      : fetcher_(fetcher), owner_(owner) {
    std::unique_lock lock(fetcher_.mutex_);
    taken_ = fetcher_.freed_.wait_until(lock, deadline, [&] {
      const auto own = fetcher_.fetches_of_.find(owner_);
      const int count = own == fetcher_.fetches_of_.end() ? 0 : own->second;
      return fetcher_.fetches_ < fetcher_.options_.fetches && count < fetcher_.options_.fetches_of_owner;
    });
    if (!taken_) return;
    ++fetcher_.fetches_;
    ++fetcher_.fetches_of_[owner_];
  }
  ~Place() {
    if (!taken_) return;
    std::lock_guard lock(fetcher_.mutex_);
    --fetcher_.fetches_;
    const auto own = fetcher_.fetches_of_.find(owner_);
    if (--own->second == 0) fetcher_.fetches_of_.erase(own);
    fetcher_.freed_.notify_all();
  }
  Place(const Place&) = delete;
  Place& operator=(const Place&) = delete;
  bool taken() const { return taken_; }

 private:
  ImageFetcher& fetcher_;
  const std::string owner_;
  bool taken_ = false;
};

Result<std::unique_ptr<ImageFetcher>> ImageFetcher::Make(ImageFetchOptions options) {
  auto tls = std::make_unique<Tls>();
  boost::system::error_code error;
  options.ca_file.empty() ? tls->context.set_default_verify_paths(error)
                          : tls->context.load_verify_file(options.ca_file, error);
  if (error) return InvalidArgument("the trusted certificates of image hosts cannot be read: " + error.message());
  tls->context.set_verify_mode(boost::asio::ssl::verify_peer);
  return std::unique_ptr<ImageFetcher>(new ImageFetcher(std::move(options), std::move(tls)));
}

ImageFetcher::ImageFetcher(ImageFetchOptions options, std::unique_ptr<Tls> tls)
    : options_(std::move(options)), tls_(std::move(tls)) {}
ImageFetcher::~ImageFetcher() = default;

Status ImageFetcher::CheckListed(const WebOrigin& origin) const {
  if (std::ranges::find(options_.hosts, origin) != options_.hosts.end()) return Status::Ok();
  return NotAllowed("This server does not fetch images from " + origin.Authority().substr(0, 64) +
                    " (--allowed-image-hosts). Send the image itself as a data URL.");
}

Result<std::string> ImageFetcher::Fetch(const std::string& owner, std::string_view url, const Charge& charge) {
  const auto deadline = FetchHop::Clock::now() + options_.time;
  Result<ImageUrl> at = ParseImageUrl(url);
  if (!at.ok()) return NotAllowed("The image's URL cannot be fetched: " + at.status().message() + ".");
  RETURN_IF_ERROR(CheckListed(at->origin));
  const Place place(*this, owner, deadline);
  if (!place.taken()) {
    return Status(StatusCode::kOverloaded, "Too many images are being fetched; retry.", "", "rate_limit_exceeded");
  }
  for (int hop = 0; hop <= options_.redirects; ++hop) {
    FetchHop request(*at, deadline, options_.max_bytes, tls_->context);
    RETURN_IF_ERROR(request.Send());
    if (const std::optional<std::string> location = request.Redirect()) {
      at = ParseRedirect(*at, *location);
      if (!at.ok()) return NotAllowed("The image's host redirects to an address that cannot be fetched.");
      RETURN_IF_ERROR(CheckListed(at->origin));
      continue;
    }
    return request.Body(charge);
  }
  return BadFetch("its host redirects too often");
}

}  // namespace ringside
