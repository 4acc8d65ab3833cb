// The keys of the keys file as the server uses them: looked up by every request, read again when the file has changed.
// Owned by the App; any thread, but reading the file again is for the App's own.
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

/// Who asks and what for.
struct Identity {
  std::string principal;  // whose conversations it sees; "" where there are no keys
  Scopes scopes = Scopes::All();
  std::string key_id;   // of the key in the keys file; "" = without one, so that nothing can be taken back
  std::string session;  // what a ticket says of the Realtime session that it opens, as JSON; "" = nothing
};

class KeyTable {
 public:
  /// Reads the file; kInvalidArgument, naming it, if it cannot be used.
  static Result<std::unique_ptr<KeyTable>> Open(const std::string& path, const Clock& clock = SystemClock::Instance());

  /// The owner of a key that is in the file and has not expired; nothing for anything else, in the same time.
  std::optional<Identity> Find(std::string_view presented) const;
  /// True if a key that was found once is still good.
  bool IsGood(const std::string& key_id) const;
  /// The same, and the key is still the owner's and has every scope of `identity`.
  bool IsGood(const Identity& identity) const;
  /// What an owner's share is by the file; the empty one for an owner without.
  OwnerShare ShareOf(const std::string& principal) const;

  /// Reads the file again if it is another than the one read last (or `anyway`); true if keys were taken over. A file
  /// that cannot be used is an error, told once, and changes nothing: the keys read last go on.
  Result<bool> Reload(bool anyway = false);
  /// How many keys there are, expired ones too.
  size_t size() const;
  /// How many owners have a key.
  size_t owners() const;

 private:
  struct Keys {
    std::unordered_map<std::string, StoredKey> by_id;
    std::unordered_map<std::string, OwnerShare> shares;  // by principal
    size_t owners = 0;                                   // with a key
  };
  KeyTable(std::string path, const Clock& clock) : path_(std::move(path)), clock_(clock) {}
  std::shared_ptr<const Keys> keys() const;
  /// Which file this is and as of when; "" if there is none.
  std::string Stamp() const;
  bool Expired(const StoredKey& key) const;

  const std::string path_;
  const Clock& clock_;
  const StoredKey nobodys_ = MakeKey("nobody", Scopes(), 0, 0).stored;  // unknown keys are compared with this one
  std::string stamp_;                                                   // of what was read last, good or not
  mutable std::mutex mutex_;
  std::shared_ptr<const Keys> keys_;
};

}  // namespace ringside
