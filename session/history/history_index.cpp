#include "session/history/history_index.h"

#include <utility>

namespace ringside {

std::vector<std::string> HistoryIndex::Set(const std::string& owner, const std::string& session, std::string_view text,
                                           int64_t now_ns) {
  std::lock_guard lock(mutex_);
  EraseLocked(session);
  Owner& own = owners_[owner];
  const uint64_t id = ++sets_;
  bytes_ -= own.tree.bytes();
  own.tree.Set(id, text);
  bytes_ += own.tree.bytes();
  own.order[id] = session;
  order_[id] = session;
  sessions_[session] = {owner, id, text.size(), now_ns};

  std::vector<std::string> given_up;
  const auto give_up = [&](const Order& order) {
    given_up.push_back(order.begin()->second);
    EraseLocked(given_up.back());
  };
  // The newest stays, however large it is.
  while (own.order.size() > per_owner_ && own.order.size() > 1) give_up(own.order);
  while (bytes_ > most_bytes_ && order_.size() > 1) give_up(order_);
  return given_up;
}

void HistoryIndex::Erase(const std::string& session) {
  std::lock_guard lock(mutex_);
  EraseLocked(session);
}

bool HistoryIndex::Contains(const std::string& session) const {
  std::lock_guard lock(mutex_);
  return sessions_.contains(session);
}

void HistoryIndex::EraseLocked(const std::string& session) {
  const auto at = sessions_.find(session);
  if (at == sessions_.end()) return;
  const Entry entry = std::move(at->second);
  sessions_.erase(at);
  order_.erase(entry.id);
  const auto own = owners_.find(entry.owner);
  bytes_ -= own->second.tree.bytes();
  own->second.tree.Erase(entry.id);
  bytes_ += own->second.tree.bytes();
  own->second.order.erase(entry.id);
  if (own->second.order.empty()) owners_.erase(own);
}

std::optional<HistoryIndex::Match> HistoryIndex::Describe(const Owner& owner,
                                                          const std::optional<PrefixTree::Match>& match) const {
  if (!match) return std::nullopt;
  const std::string& session = owner.order.at(match->id);
  return Match{session, match->shared, sessions_.at(session).size};
}

HistoryIndex::Matches HistoryIndex::Find(const std::string& owner, std::string_view text) const {
  std::lock_guard lock(mutex_);
  const auto own = owners_.find(owner);
  if (own == owners_.end()) return {};
  const PrefixTree::Matches found = own->second.tree.Find(text);
  return {Describe(own->second, found.longest), Describe(own->second, found.whole)};
}

std::optional<std::string> HistoryIndex::Oldest(std::optional<int64_t> before_ns) const {
  std::lock_guard lock(mutex_);
  if (order_.empty()) return std::nullopt;
  const std::string& oldest = order_.begin()->second;
  if (before_ns && sessions_.at(oldest).used_ns >= *before_ns) return std::nullopt;
  return oldest;
}

std::optional<std::string> HistoryIndex::OldestOf(const std::string& owner) const {
  std::lock_guard lock(mutex_);
  const auto own = owners_.find(owner);
  if (own == owners_.end()) return std::nullopt;
  return own->second.order.begin()->second;
}

size_t HistoryIndex::bytes() const {
  std::lock_guard lock(mutex_);
  return bytes_;
}

}  // namespace ringside
