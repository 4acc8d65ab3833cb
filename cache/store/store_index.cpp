#include "cache/store/store_index.h"

#include <algorithm>

namespace ringside {

void StoreIndex::Set(const std::string& owner, int64_t bytes, int64_t now_ns) {
  std::lock_guard lock(mutex_);
  auto [node, added] = nodes_.try_emplace(owner);
  if (added) {
    node->second.place = order_.insert(order_.end(), owner);
  } else {
    MoveToFront(node->second);
  }
  bytes_ += bytes - node->second.entry.bytes;
  node->second.entry = {bytes, now_ns};
}

void StoreIndex::Touch(const std::string& owner, int64_t now_ns) {
  std::lock_guard lock(mutex_);
  const auto node = nodes_.find(owner);
  if (node == nodes_.end()) return;
  node->second.entry.used_ns = std::max(node->second.entry.used_ns, now_ns);
  MoveToFront(node->second);
}

void StoreIndex::MoveToFront(const Node& node) {
  order_.splice(order_.end(), order_, node.place);
  if (node.spare) spare_.splice(spare_.end(), spare_, *node.spare);
}

void StoreIndex::SetSpare(const std::string& owner, bool spare) {
  std::lock_guard lock(mutex_);
  const auto node = nodes_.find(owner);
  if (node == nodes_.end() || node->second.spare.has_value() == spare) return;
  if (spare) {
    node->second.spare = spare_.insert(spare_.end(), owner);
  } else {
    spare_.erase(*node->second.spare);
    node->second.spare.reset();
  }
}

void StoreIndex::Remove(const std::string& owner) {
  std::lock_guard lock(mutex_);
  const auto node = nodes_.find(owner);
  if (node == nodes_.end()) return;
  bytes_ -= node->second.entry.bytes;
  order_.erase(node->second.place);
  if (node->second.spare) spare_.erase(*node->second.spare);
  nodes_.erase(node);
}

void StoreIndex::Clear() {
  std::lock_guard lock(mutex_);
  nodes_.clear();
  order_.clear();
  spare_.clear();
  bytes_ = 0;
}

std::optional<StoreIndex::Entry> StoreIndex::Find(const std::string& owner) const {
  std::lock_guard lock(mutex_);
  const auto node = nodes_.find(owner);
  if (node == nodes_.end()) return std::nullopt;
  return node->second.entry;
}

std::optional<std::string> StoreIndex::Oldest(std::optional<int64_t> before_ns) const {
  std::lock_guard lock(mutex_);
  if (order_.empty()) return std::nullopt;
  if (before_ns && nodes_.at(order_.front()).entry.used_ns >= *before_ns) return std::nullopt;
  return order_.front();
}

std::optional<std::string> StoreIndex::PickEvictionVictim() const {
  std::lock_guard lock(mutex_);
  if (!spare_.empty()) return spare_.front();
  if (!order_.empty()) return order_.front();
  return std::nullopt;
}

std::vector<std::string> StoreIndex::Owners() const {
  std::lock_guard lock(mutex_);
  return {order_.begin(), order_.end()};
}

int64_t StoreIndex::bytes() const {
  std::lock_guard lock(mutex_);
  return bytes_;
}

int64_t StoreIndex::owners() const {
  std::lock_guard lock(mutex_);
  return static_cast<int64_t>(nodes_.size());
}

}  // namespace ringside
