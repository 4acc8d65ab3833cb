#include "ws/access/key_table.h"

#include <fmt/format.h>
#include <sys/stat.h>

#include <set>

#include "ws/access/secret_file.h"

namespace ringside {
namespace {

/// Differs from every principal of a key given by a flag, which is 32 hexadecimal digits.
std::string PrincipalOf(const std::string& owner) { return "owner:" + owner; }

}  // namespace

Result<std::unique_ptr<KeyTable>> KeyTable::Open(const std::string& path, const Clock& clock) {
  std::unique_ptr<KeyTable> table(new KeyTable(path, clock));
  RETURN_IF_ERROR(table->Reload(/*anyway=*/true).status());
  return table;
}

std::shared_ptr<const KeyTable::Keys> KeyTable::keys() const {
  std::lock_guard lock(mutex_);
  return keys_;
}

size_t KeyTable::size() const { return keys()->by_id.size(); }

bool KeyTable::Expired(const StoredKey& key) const {
  return key.expires_s != 0 && clock_.WallSeconds() >= static_cast<double>(key.expires_s);
}

std::optional<Identity> KeyTable::Find(std::string_view presented) const {
  const std::shared_ptr<const Keys> all = keys();
  const std::string_view id = KeyId(presented);
  if (id.empty()) return std::nullopt;  // not of a key's form, which is public
  const auto at = all->by_id.find(std::string(id));
  const StoredKey& key = at == all->by_id.end() ? dummy_key_ : at->second;
  if (!IsKey(key, presented) || Expired(key)) return std::nullopt;
  return Identity{PrincipalOf(key.owner), key.scopes, key.id};
}

bool KeyTable::IsGood(const std::string& key_id) const {
  const std::shared_ptr<const Keys> all = keys();
  const auto at = all->by_id.find(key_id);
  return at != all->by_id.end() && !Expired(at->second);
}

bool KeyTable::IsGood(const Identity& identity) const {
  const std::shared_ptr<const Keys> all = keys();
  const auto at = all->by_id.find(identity.key_id);
  return at != all->by_id.end() && !Expired(at->second) && PrincipalOf(at->second.owner) == identity.principal &&
         at->second.scopes.Has(identity.scopes);
}

size_t KeyTable::owners() const { return keys()->owners; }

OwnerShare KeyTable::ShareOf(const std::string& principal) const {
  const std::shared_ptr<const Keys> all = keys();
  const auto at = all->shares.find(principal);
  return at == all->shares.end() ? OwnerShare() : at->second;
}

std::string KeyTable::Stamp() const {
  struct stat info {};
  if (stat(path_.c_str(), &info) != 0) return "";
  return fmt::format("{} {} {} {}.{:09}", info.st_dev, info.st_ino, info.st_size, info.st_mtim.tv_sec,
                     info.st_mtim.tv_nsec);
}

Result<bool> KeyTable::Reload(bool anyway) {
  // Before reading: a concurrent write is then seen by the next call.
  std::string stamp = Stamp();
  if (!anyway && stamp == stamp_) return false;
  stamp_ = std::move(stamp);
  ASSIGN_OR_RETURN(const std::string text, ReadSecretFile(path_, kMaxKeysFileBytes));
  Result<KeysFile> file = ParseKeysFile(text);
  if (!file.ok()) return InvalidArgument("\"" + path_ + "\": " + file.status().message());
  auto keys = std::make_shared<Keys>();
  for (const auto& [owner, share] : file->owners) keys->shares[PrincipalOf(owner)] = share;
  std::set<std::string> owners;
  for (StoredKey& key : file->keys) {
    owners.insert(key.owner);
    std::string id = key.id;
    keys->by_id.emplace(std::move(id), std::move(key));
  }
  keys->owners = owners.size();
  std::lock_guard lock(mutex_);
  keys_ = std::move(keys);
  return true;
}

}  // namespace ringside
