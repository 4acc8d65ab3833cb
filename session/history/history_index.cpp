#include "session/history/history_index.h"

#include <functional>
#include <utility>

namespace ringside {

const std::string* HistoryIndex::Orders::PickEvictionVictim(uint64_t newest) const {
  for (const Order* order : {&once, &continued}) {
    if (!order->empty() && order->begin()->first != newest) return &order->begin()->second;
  }
  return nullptr;
}

std::vector<std::string> HistoryIndex::Set(const std::string& owner, const std::string& session, std::string_view text,
                                           int64_t now_ns, HistoryTraits traits) {
  std::lock_guard lock(mutex_);
  EraseLocked(session);
  Owner& own = owners_[owner];
  const uint64_t id = ++sets_;
  bytes_ -= own.tree.bytes();
  own.tree.Set(id, text);
  bytes_ += own.tree.bytes() + traits.key.size();
  own.orders.Of(traits)[id] = session;
  orders_.Of(traits)[id] = session;
  sessions_[session] = {owner, id, text.size(), now_ns, std::move(traits)};

  // The newest session stays, however large.
  std::vector<std::string> given_up;
  const auto give_up = [&](const Orders& orders) {
    const std::string* const first = orders.PickEvictionVictim(id);
    if (first == nullptr) return false;
    given_up.push_back(*first);
    EraseLocked(given_up.back());
    return true;
  };
  while (own.orders.size() > per_owner_ && give_up(own.orders)) continue;
  while (bytes_ > most_bytes_ && give_up(orders_)) continue;
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
  orders_.Of(entry.traits).erase(entry.id);
  const auto own = owners_.find(entry.owner);
  bytes_ -= own->second.tree.bytes() + entry.traits.key.size();
  own->second.tree.Erase(entry.id);
  bytes_ += own->second.tree.bytes();
  own->second.orders.Of(entry.traits).erase(entry.id);
  if (own->second.orders.size() == 0) owners_.erase(own);
}

std::optional<HistoryIndex::Match> HistoryIndex::Describe(const Owner& owner,
                                                          const std::optional<PrefixTree::Match>& match) const {
  if (!match) return std::nullopt;
  const std::string& session = owner.orders.At(match->id);
  return Match{session, match->shared, sessions_.at(session).size};
}

HistoryIndex::Matches HistoryIndex::Find(const std::string& owner, std::string_view text,
                                         const std::string& key) const {
  std::lock_guard lock(mutex_);
  const auto own = owners_.find(owner);
  if (own == owners_.end()) return {};
  std::function<bool(PrefixTree::Id)> has_key;
  if (!key.empty()) {
    has_key = [&](PrefixTree::Id id) { return sessions_.at(own->second.orders.At(id)).traits.key == key; };
  }
  const PrefixTree::Matches found = own->second.tree.Find(text, has_key);
  return {Describe(own->second, found.longest), Describe(own->second, found.whole)};
}

std::optional<std::string> HistoryIndex::Oldest(std::optional<int64_t> before_ns) const {
  std::lock_guard lock(mutex_);
  const Order &once = orders_.once, &continued = orders_.continued;
  if (orders_.size() == 0) return std::nullopt;
  const bool first_once = continued.empty() || (!once.empty() && once.begin()->first < continued.begin()->first);
  const std::string& oldest = (first_once ? once : continued).begin()->second;
  if (before_ns && sessions_.at(oldest).used_ns >= *before_ns) return std::nullopt;
  return oldest;
}

std::optional<std::string> HistoryIndex::PickEvictionVictim(const std::optional<std::string>& owner) const {
  std::lock_guard lock(mutex_);
  const Orders* orders = &orders_;
  if (owner) {
    const auto own = owners_.find(*owner);
    if (own == owners_.end()) return std::nullopt;
    orders = &own->second.orders;
  }
  const std::string* const first = orders->PickEvictionVictim();
  return first == nullptr ? std::nullopt : std::optional(*first);
}

size_t HistoryIndex::bytes() const {
  std::lock_guard lock(mutex_);
  return bytes_;
}

}  // namespace ringside
