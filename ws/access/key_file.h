// The keys file: who may use the server, with which keys, for what and how much. Keys are not in it, only their salted
// hashes: who reads the file cannot ask in anybody's name. Plain values and pure functions; any thread.
//
// The file is JSON, mode 0400 or 0600, written by `ringside keys` (ws/access/keys_command.h), read by the server:
//
//   {"ringside_keys": 1,
//    "owners": {"alice": {"turns": 4, "tokens_per_minute": 60000, "sessions": 100, "text_mb": 64}},
//    "keys": [{"id": "0a1b2c3d4e5f", "owner": "alice", "scopes": "chat", "created": "2026-11-24T07:00:00Z",
//              "expires": "2027-11-24T07:00:00Z", "salt": 64 hexadecimal digits, "hash": likewise}]}
//
// A key is "rsk_", its id, "_" and 256 random bits in hexadecimal digits. The hash is HMAC-SHA256 of those digits under
// the salt: against a secret that nobody can guess a slow hash would only slow the server down.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "ws/access/scope.h"

namespace ringside {

/// What an owner may use instead of what the server's flags say; nothing = as they say, 0 = without limit.
struct OwnerShare {
  std::optional<int64_t> turns;              // running and waiting at once
  std::optional<int64_t> tokens_per_minute;  // computed for the owner, read and written
  std::optional<int64_t> sessions;           // conversations
  std::optional<int64_t> chains;             // of previous_response_id; the least recently used goes for one more
  std::optional<int64_t> text_mb;            // memory for what was said, MiB
  std::optional<int64_t> stored_mb;          // on disk, MiB
  std::optional<int64_t> connections;        // open sockets

  bool empty() const;
};

/// How a part of a share is written.
struct ShareField {
  std::optional<int64_t> OwnerShare::*value;
  const char* name;     // in the file
  const char* flag;     // of `ringside-server keys limit`
  const char* counted;  // behind the number
  const char* help;
  int64_t most;
};
std::span<const ShareField> ShareFields();

struct StoredKey {
  std::string id;  // 12 hexadecimal digits; no secret
  std::string owner;
  Scopes scopes;
  int64_t created_s = 0;   // seconds since 1970
  int64_t expires_s = 0;   // from then on it opens nothing; 0 = never
  std::string salt, hash;  // 32 bytes each
};

struct KeysFile {
  std::map<std::string, OwnerShare> owners;  // with a share of their own
  std::vector<StoredKey> keys;
};

inline constexpr size_t kMaxKeys = 100'000;
inline constexpr size_t kMaxKeysFileBytes = 64 << 20;

/// kInvalidArgument with what is wrong and where; says nothing of salts and hashes.
Result<KeysFile> ParseKeysFile(std::string_view text);
std::string FormatKeysFile(const KeysFile& file);

/// 1 to 64 letters, digits and . _ @ -
bool IsOwnerName(std::string_view name);

/// A key just made and what is kept of it: `text` is shown once and stored nowhere.
struct NewKey {
  StoredKey stored;
  std::string text;
};
NewKey MakeKey(const std::string& owner, Scopes scopes, int64_t created_s, int64_t expires_s);

/// The id of a text that has a key's form, "" of any other. Right or wrong, the text may be anything a client sends.
std::string_view KeyId(std::string_view text);
/// True if `text`, which has the id of `key`, is that key. Takes as long for a wrong one.
bool IsKey(const StoredKey& key, std::string_view text);

/// "2026-11-24T07:00:00Z" and back; nothing for another text.
std::string FormatTime(int64_t seconds);
std::optional<int64_t> ParseTime(const std::string& text);

}  // namespace ringside
