#include "ws/config/config_key.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "base/hex.h"
#include "base/sealed_box.h"
#include "ws/access/secret_file.h"

namespace ringside {
namespace {

constexpr size_t kKeyBytes = 32;

/// Decodes 64 hexadecimal digits with at most one line end; "" for anything else.
std::string FromHex(std::string_view text) {
  if (text.ends_with('\n')) text.remove_suffix(1);
  if (text.ends_with('\r')) text.remove_suffix(1);
  if (text.size() != 2 * kKeyBytes) return "";
  std::string key;
  for (size_t i = 0; i < text.size(); i += 2) {
    const int high = HexDigit(text[i]), low = HexDigit(text[i + 1]);
    if (high < 0 || low < 0) return "";
    key += static_cast<char>(high * 16 + low);
  }
  return key;
}

Status WriteKey(int file, const std::string& path) {
  const SealKey key = SealKey::Random();
  std::string digits;
  for (const char byte : key.bytes()) digits += fmt::format("{:02x}", static_cast<unsigned char>(byte));
  digits += '\n';
  if (write(file, digits.data(), digits.size()) != static_cast<ssize_t>(digits.size()) || fsync(file) != 0) {
    return InvalidArgument("cannot write \"" + path + "\": " + std::strerror(errno));
  }
  return Status::Ok();
}

/// Writes under a temporary name first, so that no reader sees part of a key.
Status WriteNewKey(const std::string& path) {
  std::string draft = path + ".XXXXXX";
  const int file = mkostemp(draft.data(), O_CLOEXEC);  // mode 0600
  if (file < 0) return InvalidArgument("cannot make \"" + path + "\": " + std::strerror(errno));
  Status status = WriteKey(file, path);
  close(file);
  if (status.ok() && link(draft.c_str(), path.c_str()) != 0 && errno != EEXIST) {
    status = InvalidArgument("cannot make \"" + path + "\": " + std::strerror(errno));
  }
  unlink(draft.c_str());
  return status;
}

}  // namespace

Result<std::string> ReadKey(const std::string& path) {
  ASSIGN_OR_RETURN(const std::string bytes, ReadSecretFile(path));
  if (bytes.size() == kKeyBytes) return bytes;
  std::string key = FromHex(bytes);
  // Key material must not reach an error message or a log.
  if (key.empty()) return InvalidArgument("\"" + path + "\" holds neither 32 bytes nor 64 hexadecimal digits");
  return key;
}

Result<std::string> ReadOrMakeKey(const std::string& path) {
  if (access(path.c_str(), F_OK) != 0 && errno == ENOENT) RETURN_IF_ERROR(WriteNewKey(path));
  return ReadKey(path);
}

}  // namespace ringside
