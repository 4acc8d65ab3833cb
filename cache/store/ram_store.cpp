#include "cache/store/ram_store.h"

#include <utility>

namespace ringside {

Status RamStore::Put(const std::string& owner, StoreObject object) {
  Object stored;
  auto bytes = static_cast<int64_t>(object.manifest.size());
  stored.manifest = std::move(object.manifest);
  for (StorePart& part : object.parts) {
    const auto size = static_cast<int64_t>(part.bytes.size());
    if (stored.parts.emplace(part.key, std::move(part.bytes)).second) bytes += size;
  }
  std::lock_guard lock(mutex_);
  const auto old = index_.Find(owner);
  if (index_.bytes() - (old ? old->bytes : 0) + bytes > budget_bytes_) return Overloaded("host tier: over its budget");
  objects_[owner] = std::move(stored);
  index_.Set(owner, bytes, clock_.MonotonicNs());
  return Status::Ok();
}

Result<std::string> RamStore::GetManifest(const std::string& owner) {
  std::lock_guard lock(mutex_);
  const auto object = objects_.find(owner);
  if (object == objects_.end()) return NotFound("host tier: no such object");
  return object->second.manifest;
}

Result<Blob> RamStore::GetPart(const std::string& owner, const ChunkHash& key, size_t bytes) {
  std::lock_guard lock(mutex_);
  const auto object = objects_.find(owner);
  if (object == objects_.end()) return NotFound("host tier: no such object");
  const auto part = object->second.parts.find(key);
  if (part == object->second.parts.end()) return NotFound("host tier: no such part");
  if (part->second.size() != bytes) return Corruption("host tier: a part of another size");
  return part->second;
}

Status RamStore::Erase(const std::string& owner) {
  Object gone;  // destroyed after the lock is released
  std::lock_guard lock(mutex_);
  const auto object = objects_.find(owner);
  if (object == objects_.end()) return Status::Ok();
  gone = std::move(object->second);
  objects_.erase(object);
  index_.Remove(owner);
  return Status::Ok();
}

}  // namespace ringside
