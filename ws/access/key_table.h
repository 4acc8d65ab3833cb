// The keys file as the server uses it: looked up by every request, reloaded after changes. Owned by the App.
// THREAD: any; Reload: the App's.
#pragma once

#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <unordered_map>

#include "base/clock.h"
#include "base/status.h"
#include "ws/access/key_file.h"

namespace ringside {

/// An authenticated owner and the scopes of its key.
struct Identity {
  std::string principal;  // owner of the visible conversations; "" without keys
  Scopes scopes = Scopes::All();
  std::string key_id;   // id in the keys file; "" = not from the file, cannot be revoked
  std::string session;  // the ticket's Realtime session settings as JSON; "" = none
};

class KeyTable {
 public:
  /// ERRORS: kInvalidArgument, naming the file, if it is unusable.
  static Result<std::unique_ptr<KeyTable>> Open(const std::string& path, const Clock& clock = SystemClock::Instance());

  /// Returns the owner of a key that is in the file and has not expired; nullopt for any other text, in the same time.
  std::optional<Identity> Find(std::string_view presented) const;
  /// True if a key that was found earlier is still valid.
  bool IsGood(const std::string& key_id) const;
  /// Also requires that the key still belongs to the owner and has every scope of `identity`.
  bool IsGood(const Identity& identity) const;
  /// The owner's limits from the file; empty for an owner without limits.
  OwnerShare ShareOf(const std::string& principal) const;

  /// Reloads the file if it differs from the last one read (or if `anyway`); true if keys were replaced. An unusable
  /// file is reported once and changes nothing: the previous keys stay valid.
  Result<bool> Reload(bool anyway = false);
  /// Number of keys, including expired ones.
  size_t size() const;
  /// Number of owners with a key.
  size_t owners() const;

 private:
  struct Keys {
    std::unordered_map<std::string, StoredKey> by_id;
    std::unordered_map<std::string, OwnerShare> shares;  // by principal
    size_t owners = 0;                                   // with at least one key
  };
  KeyTable(std::string path, const Clock& clock) : path_(std::move(path)), clock_(clock) {}
  std::shared_ptr<const Keys> keys() const;
  /// Identity and modification time of the file; "" if there is none.
  std::string Stamp() const;
  bool Expired(const StoredKey& key) const;

  const std::string path_;
  const Clock& clock_;
  // unknown keys are compared with this one, for constant time
  const StoredKey dummy_key_ = MakeKey("nobody", Scopes(), 0, 0).stored;
  std::string stamp_;  // of the last file read, valid or not
  mutable std::mutex mutex_;
  std::shared_ptr<const Keys> keys_;
};

}  // namespace ringside
