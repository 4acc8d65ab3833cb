#include "cache/shared_pages.h"

#include <algorithm>
#include <iterator>

#include "base/check.h"

namespace ringside {

void SharedPages::Add(const KvCache* cache, const KvCache* from, int64_t first, int64_t end) {
  auto &ours = pages_[cache], &theirs = pages_[from];
  for (int64_t page = first; page < end; ++page) {
    std::shared_ptr<Users>& users = theirs[page];
    if (users == nullptr) users = std::make_shared<Users>(1, from);
    users->push_back(cache);
    CHECK(ours.emplace(page, users).second);
  }
  saved_ += end - first;
}

const KvCache* SharedPages::OtherUser(const KvCache* cache, int64_t page) const {
  const auto ours = pages_.find(cache);
  if (ours == pages_.end()) return nullptr;
  const auto found = ours->second.find(page);
  if (found == ours->second.end()) return nullptr;
  return *std::ranges::find_if(*found->second, [&](const KvCache* user) { return user != cache; });
}

void SharedPages::Remove(const KvCache* cache, int64_t page) {
  const auto erase = [&](const KvCache* user) {
    const auto entry = pages_.find(user);
    entry->second.erase(page);
    if (entry->second.empty()) pages_.erase(entry);
  };
  const std::shared_ptr<Users> users = pages_.at(cache).at(page);
  std::erase(*users, cache);
  erase(cache);
  if (users->size() == 1) erase(users->front());
  --saved_;
}

int64_t SharedPages::Count(const KvCache* cache) const {
  const auto ours = pages_.find(cache);
  return ours == pages_.end() ? 0 : std::ssize(ours->second);
}

std::optional<int64_t> SharedPages::First(const KvCache* cache, int64_t first) const {
  const auto ours = pages_.find(cache);
  if (ours == pages_.end()) return std::nullopt;
  const auto found = ours->second.lower_bound(first);
  return found == ours->second.end() ? std::nullopt : std::optional(found->first);
}

bool SharedPages::SharesAll(const KvCache* cache, const KvCache* other) const {
  const auto ours = pages_.find(cache);
  return ours == pages_.end() || std::ranges::all_of(ours->second, [&](const auto& page) {
           return std::ranges::count(*page.second, other) > 0;
         });
}

}  // namespace ringside
