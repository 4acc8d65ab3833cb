// The keys file: owners, their keys, scopes and limits. It stores salted hashes only, so that its reader cannot act as
// an owner. Plain values and pure functions.
// THREAD: any.
// Format: JSON, mode 0400 or 0600, written by `ringside keys` (ws/access/keys_command.h), read by the server:
// {"ringside_keys": 1, "owners": {"alice": {"turns": 4, "tokens_per_minute": 60000, "sessions": 100, "text_mb": 64}},
// "keys": [{"id": "0a1b2c3d4e5f", "owner": "alice", "scopes": "chat", "created": "2026-11-24T07:00:00Z", "expires":
// "2027-11-24T07:00:00Z", "salt": 64 hexadecimal digits, "hash": 64 hexadecimal digits}]} A key is "rsk_", its id, "_"
// and 256 random bits in hexadecimal digits. The hash is HMAC-SHA256 of those digits under the salt. A slow hash has no
// benefit for a secret that cannot be guessed.
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

/// Limits of an owner that override the server's flags; nullopt = the flag's value, 0 = unlimited.
struct OwnerShare {
  std::optional<int64_t> turns;              // running and queued at once
  std::optional<int64_t> tokens_per_minute;  // computed for the owner, prompt and output
  std::optional<int64_t> sessions;           // conversations
  // of previous_response_id; the least recently used is dropped for a new one
  std::optional<int64_t> chains;
  std::optional<int64_t> text_mb;      // memory for conversation text, MiB
  std::optional<int64_t> stored_mb;    // on disk, MiB
  std::optional<int64_t> connections;  // open sockets

  bool empty() const;
};

/// Spelling of one limit.
struct ShareField {
  std::optional<int64_t> OwnerShare::*value;
  const char* name;     // key in the file
  const char* flag;     // flag of `ringside-server keys limit`
  const char* counted;  // unit after the number
  const char* help;
  int64_t most;
};
std::span<const ShareField> ShareFields();

struct StoredKey {
  std::string id;  // 12 hexadecimal digits; not secret
  std::string owner;
  Scopes scopes;
  int64_t created_s = 0;   // seconds since 1970
  int64_t expires_s = 0;   // expiry time; 0 = never
  std::string salt, hash;  // 32 bytes each
};

struct KeysFile {
  std::map<std::string, OwnerShare> owners;  // with limits of their own
  std::vector<StoredKey> keys;
};

inline constexpr size_t kMaxKeys = 100'000;
inline constexpr size_t kMaxKeysFileBytes = 64 << 20;

/// ERRORS: kInvalidArgument, naming the fault and its place, never a salt or a hash.
Result<KeysFile> ParseKeysFile(std::string_view text);
std::string FormatKeysFile(const KeysFile& file);

/// 1 to 64 letters, digits and . _ @ -
bool IsOwnerName(std::string_view name);

/// A new key and its stored form: `text` is shown once and stored nowhere.
struct NewKey {
  StoredKey stored;
  std::string text;
};
NewKey MakeKey(const std::string& owner, Scopes scopes, int64_t created_s, int64_t expires_s);

/// The id in a text that has the form of a key, otherwise "". The text may be anything a client sends.
std::string_view KeyId(std::string_view text);
/// True if `text` is the key `key`, in constant time.
/// REQUIRES: `text` has the id of `key`.
bool IsKey(const StoredKey& key, std::string_view text);

/// Converts to and from "2026-11-24T07:00:00Z"; nullopt for other text.
std::string FormatTime(int64_t seconds);
std::optional<int64_t> ParseTime(const std::string& text);

}  // namespace ringside
