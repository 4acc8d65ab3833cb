#include "session/pictures/picture_cache.h"

namespace ringside {

std::shared_ptr<const Picture> PictureCache::Find(const std::string& owner, const Sha256Digest& digest) {
  std::lock_guard lock(mutex_);
  const auto found = entries_.find({owner, digest});
  if (found == entries_.end()) return nullptr;
  newest_first_.splice(newest_first_.begin(), newest_first_, found->second);
  return found->second->picture;
}

void PictureCache::Add(const std::string& owner, std::shared_ptr<const Picture> picture) {
  std::lock_guard lock(mutex_);
  const Key key{owner, picture->digest};
  if (entries_.contains(key)) return;
  bytes_ += static_cast<int64_t>(picture->rgb.size());
  newest_first_.push_front({key, std::move(picture)});
  entries_[key] = newest_first_.begin();
  while (bytes_ > max_bytes_ && !newest_first_.empty()) {
    bytes_ -= static_cast<int64_t>(newest_first_.back().picture->rgb.size());
    entries_.erase(newest_first_.back().key);
    newest_first_.pop_back();
  }
}

int64_t PictureCache::bytes() const {
  std::lock_guard lock(mutex_);
  return bytes_;
}

}  // namespace ringside
