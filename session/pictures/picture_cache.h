// Decoded pictures that recent turns used, per owner: a turn decodes an image of its history again only if others took
// its place. The least recently used leave first. THREAD: any.
#pragma once

#include <cstdint>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

#include "base/sha256.h"
#include "engine/vision/picture.h"

namespace ringside {

class PictureCache {
 public:
  explicit PictureCache(int64_t max_bytes) : max_bytes_(max_bytes) {}
  /// Null if it is not there. Never another owner's: the time of a request would reveal the images of others.
  std::shared_ptr<const Picture> Find(const std::string& owner, const Sha256Digest& digest);
  void Add(const std::string& owner, std::shared_ptr<const Picture> picture);
  int64_t bytes() const;

 private:
  using Key = std::pair<std::string, Sha256Digest>;
  struct Entry {
    Key key;
    std::shared_ptr<const Picture> picture;
  };

  const int64_t max_bytes_;
  mutable std::mutex mutex_;
  std::list<Entry> newest_first_;
  std::map<Key, std::list<Entry>::iterator> entries_;
  int64_t bytes_ = 0;
};

}  // namespace ringside
