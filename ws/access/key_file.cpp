#include "ws/access/key_file.h"

#include <fmt/format.h>
#include <openssl/rand.h>

#include <algorithm>
#include <array>
#include <ctime>
#include <nlohmann/json.hpp>
#include <set>

#include "base/check.h"
#include "base/hex.h"
#include "base/hmac.h"
#include "base/json/json_tree.h"

namespace ringside {
namespace {

using Json = nlohmann::json;

constexpr std::string_view kPrefix = "rsk_";
constexpr size_t kIdDigits = 12, kSecretDigits = 64, kHashBytes = 32;
constexpr size_t kMaxOwnerBytes = 64;
constexpr int64_t kMostOfAShare = int64_t{1} << 40, kMostMegabytes = int64_t{1} << 24;
constexpr int kVersion = 1;

constexpr ShareField kShares[] = {
    {&OwnerShare::turns, "turns", "--turns", "turns", "Turns running and waiting at once", kMostOfAShare},
    {&OwnerShare::tokens_per_minute, "tokens_per_minute", "--tokens-per-minute", "tokens a minute",
     "Tokens read and written", kMostOfAShare},
    {&OwnerShare::sessions, "sessions", "--sessions", "sessions", "Conversations", kMostOfAShare},
    {&OwnerShare::chains, "chains", "--chains", "chains",
     "Chains of previous_response_id: the least recently used is deleted for one more", kMostOfAShare},
    {&OwnerShare::text_mb, "text_mb", "--text-mb", "MiB of text", "Memory for what was said, MiB", kMostMegabytes},
    {&OwnerShare::stored_mb, "stored_mb", "--stored-mb", "MiB on disk", "What conversations may hold of the disk, MiB",
     kMostMegabytes},
    {&OwnerShare::connections, "connections", "--connections", "connections", "Open sockets", kMostOfAShare}};

bool IsHex(std::string_view text, size_t digits) {
  return text.size() == digits && text.find_first_not_of("0123456789abcdef") == std::string_view::npos;
}

/// Decodes hexadecimal digits.
/// REQUIRES: `text` consists of such digits.
std::string Unhex(std::string_view text) {
  const auto digit = [](char c) { return c <= '9' ? c - '0' : c - 'a' + 10; };
  std::string out;
  for (size_t i = 0; i + 1 < text.size(); i += 2) out += static_cast<char>(digit(text[i]) * 16 + digit(text[i + 1]));
  return out;
}

std::string RandomHex(size_t digits) {
  std::string bytes(digits / 2, '\0');
  CHECK_EQ(RAND_bytes(reinterpret_cast<unsigned char*>(bytes.data()), static_cast<int>(bytes.size())), 1);
  return HexText(bytes);
}

std::string_view Secret(std::string_view text) { return text.substr(kPrefix.size() + kIdDigits + 1); }

/// The members of one object, each consumed once; the rest are unknown.
class Members {
 public:
  Members(const Json& object, std::string place) : object_(object), place_(std::move(place)) {}

  Status Bad(const std::string& name, const std::string& wanted) const {
    return InvalidArgument(place_ + ": \"" + name + "\" is not " + wanted);
  }
  Result<std::string> Text(const std::string& name, const std::string& wanted) {
    taken_.insert(name);
    const auto at = object_.find(name);
    if (at == object_.end() || !at->is_string()) return Bad(name, wanted);
    return at->get<std::string>();
  }
  Result<std::string> Bytes(const std::string& name) {
    const std::string wanted = "64 hexadecimal digits";
    ASSIGN_OR_RETURN(const std::string digits, Text(name, wanted));
    if (!IsHex(digits, 2 * kHashBytes)) return Bad(name, wanted);
    return Unhex(digits);
  }
  /// Seconds since 1970.
  Result<int64_t> Time(const std::string& name) {
    const std::string wanted = "a time such as 2026-11-24T07:00:00Z";
    ASSIGN_OR_RETURN(const std::string text, Text(name, wanted));
    const std::optional<int64_t> time = ParseTime(text);
    if (!time) return Bad(name, wanted);
    return *time;
  }
  Result<std::optional<int64_t>> Share(const std::string& name, int64_t most) {
    taken_.insert(name);
    const auto at = object_.find(name);
    if (at == object_.end()) return std::optional<int64_t>();
    const std::string wanted = fmt::format("a whole number from 0 to {}", most);
    if (!at->is_number_integer() || (at->is_number_unsigned() && at->get<uint64_t>() > static_cast<uint64_t>(most))) {
      return Bad(name, wanted);
    }
    const auto value = at->get<int64_t>();
    if (value < 0 || value > most) return Bad(name, wanted);
    return std::optional<int64_t>(value);
  }
  bool Has(const std::string& name) const { return object_.contains(name); }
  /// An unknown name is of a newer version or misspelt; either way it must not be ignored.
  Status NothingElse() const {
    for (const auto& [name, value] : object_.items()) {
      if (!taken_.contains(name)) return InvalidArgument(place_ + ": unknown \"" + name + "\"");
    }
    return Status::Ok();
  }

 private:
  const Json& object_;
  const std::string place_;
  std::set<std::string> taken_;
};

Result<OwnerShare> ReadShare(const std::string& owner, const Json& object) {
  if (!IsOwnerName(owner)) return InvalidArgument("owners: a name is 1 to 64 letters, digits and . _ @ -");
  if (!object.is_object()) return InvalidArgument("owners: \"" + owner + "\" is no object");
  Members members(object, "owner \"" + owner + "\"");
  OwnerShare share;
  for (const ShareField& field : kShares) {
    ASSIGN_OR_RETURN(share.*field.value, members.Share(field.name, field.most));
  }
  RETURN_IF_ERROR(members.NothingElse());
  return share;
}

Result<StoredKey> ReadStoredKey(const Json& object, size_t number) {
  std::string place = fmt::format("key {}", number);
  if (!object.is_object()) return InvalidArgument(place + " is no object");
  Members members(object, place);
  StoredKey key;
  ASSIGN_OR_RETURN(key.id, members.Text("id", "12 hexadecimal digits"));
  if (!IsHex(key.id, kIdDigits)) return members.Bad("id", "12 hexadecimal digits");
  ASSIGN_OR_RETURN(key.owner, members.Text("owner", "a name"));
  if (!IsOwnerName(key.owner)) return members.Bad("owner", "1 to 64 letters, digits and . _ @ -");
  ASSIGN_OR_RETURN(const std::string scopes, members.Text("scopes", "a list of scopes"));
  Result<Scopes> parsed = Scopes::Parse(scopes);
  if (!parsed.ok()) return InvalidArgument(place + ": scopes: " + parsed.status().message());
  key.scopes = *parsed;
  ASSIGN_OR_RETURN(key.created_s, members.Time("created"));
  if (members.Has("expires")) {
    ASSIGN_OR_RETURN(key.expires_s, members.Time("expires"));
  }
  ASSIGN_OR_RETURN(key.salt, members.Bytes("salt"));
  ASSIGN_OR_RETURN(key.hash, members.Bytes("hash"));
  RETURN_IF_ERROR(members.NothingElse());
  return key;
}

Result<KeysFile> KeysFileOf(const Json& root) {
  if (!root.is_object() || root.value("ringside_keys", Json()) != kVersion) {
    return InvalidArgument("not a keys file; create one with `ringside keys add`");
  }
  KeysFile file;
  for (const auto& [name, value] : root.items()) {
    if (name == "ringside_keys") continue;
    if (name == "owners" && value.is_object()) {
      for (const auto& [owner, share] : value.items()) {
        ASSIGN_OR_RETURN(file.owners[owner], ReadShare(owner, share));
      }
    } else if (name == "keys" && value.is_array()) {
      if (value.size() > kMaxKeys) return InvalidArgument(fmt::format("more than {} keys", kMaxKeys));
      std::set<std::string> ids;
      for (const Json& object : value) {
        ASSIGN_OR_RETURN(StoredKey key, ReadStoredKey(object, file.keys.size() + 1));
        if (!ids.insert(key.id).second) return InvalidArgument("two keys have the id " + key.id);
        file.keys.push_back(std::move(key));
      }
    } else {
      return InvalidArgument("\"" + name + "\" is unknown or of the wrong type");
    }
  }
  return file;
}

}  // namespace

std::span<const ShareField> ShareFields() { return kShares; }

bool OwnerShare::empty() const {
  return std::ranges::none_of(kShares, [this](const ShareField& field) { return (this->*field.value).has_value(); });
}

Result<KeysFile> ParseKeysFile(std::string_view text) {
  // The parser's message is not quoted: the fault may be next to a hash.
  JsonFault fault;
  const Json root = ParseJsonTree(text, {.bytes = kMaxKeysFileBytes, .values = limits::kMaxLargeJsonValues}, &fault);
  if (fault.kind == JsonFault::Kind::kBytes) return InvalidArgument("the file is too long");
  if (!fault.ok()) return InvalidArgument("the file is not JSON");
  return KeysFileOf(root);
}

std::string FormatKeysFile(const KeysFile& file) {
  Json owners = Json::object();
  for (const auto& [owner, share] : file.owners) {
    Json& object = owners[owner] = Json::object();
    for (const ShareField& field : kShares) {
      if (share.*field.value) object[field.name] = *(share.*field.value);
    }
  }
  // One line per key, so that people can read the file.
  std::string out = fmt::format("{{\"ringside_keys\": {},\n \"owners\": {},\n \"keys\": [", kVersion, owners.dump());
  for (size_t i = 0; i < file.keys.size(); ++i) {
    const StoredKey& key = file.keys[i];
    nlohmann::ordered_json object = {{"id", key.id}, {"owner", key.owner}, {"scopes", key.scopes.ToString()}};
    object["created"] = FormatTime(key.created_s);
    if (key.expires_s != 0) object["expires"] = FormatTime(key.expires_s);
    object["salt"] = HexText(key.salt);
    object["hash"] = HexText(key.hash);
    out += (i == 0 ? "\n  " : ",\n  ") + object.dump();
  }
  return out + "]}\n";
}

bool IsOwnerName(std::string_view name) {
  const auto allowed = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' || c == '_' ||
           c == '@' || c == '-';
  };
  return !name.empty() && name.size() <= kMaxOwnerBytes && std::all_of(name.begin(), name.end(), allowed);
}

NewKey MakeKey(const std::string& owner, Scopes scopes, int64_t created_s, int64_t expires_s) {
  NewKey key;
  key.stored = {.id = RandomHex(kIdDigits),
                .owner = owner,
                .scopes = scopes,
                .created_s = created_s,
                .expires_s = expires_s,
                .salt = std::string(SealKey::Random().bytes()),
                .hash = ""};
  key.text = std::string(kPrefix) + key.stored.id + "_" + RandomHex(kSecretDigits);
  key.stored.hash = HmacSha256(SealKey(key.stored.salt), Secret(key.text));
  return key;
}

std::string_view KeyId(std::string_view text) {
  if (text.size() != kPrefix.size() + kIdDigits + 1 + kSecretDigits || !text.starts_with(kPrefix)) return {};
  const std::string_view id = text.substr(kPrefix.size(), kIdDigits);
  if (!IsHex(id, kIdDigits) || text[kPrefix.size() + kIdDigits] != '_' || !IsHex(Secret(text), kSecretDigits))
    return {};
  return id;
}

bool IsKey(const StoredKey& key, std::string_view text) { return IsHmac(SealKey(key.salt), Secret(text), key.hash); }

std::string FormatTime(int64_t seconds) {
  const time_t time = seconds;
  tm utc{};
  gmtime_r(&time, &utc);
  std::array<char, 32> text{};
  return {text.data(), std::strftime(text.data(), text.size(), "%Y-%m-%dT%H:%M:%SZ", &utc)};
}

std::optional<int64_t> ParseTime(const std::string& text) {
  tm utc{};
  const char* end = strptime(text.c_str(), "%Y-%m-%dT%H:%M:%SZ", &utc);
  if (end == nullptr || end != text.c_str() + text.size()) return std::nullopt;
  const int64_t seconds = timegm(&utc);
  // Rejects impossible dates, such as 31 February, and other spellings.
  if (seconds <= 0 || FormatTime(seconds) != text) return std::nullopt;
  return seconds;
}

}  // namespace ringside
