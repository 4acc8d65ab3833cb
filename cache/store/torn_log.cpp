#include "cache/store/torn_log.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <optional>
#include <sstream>
#include <string_view>

#include "base/log.h"

namespace ringside {
namespace {

// RocksDB's log format: blocks of 32 KiB with fragments of records: masked CRC-32C of type and bytes, length u16, type
// u8, bytes. A fragment does not cross blocks; fewer than 7 bytes at the end of a block are padding.
constexpr size_t kBlock = 32768, kHeader = 7;
constexpr uint8_t kFull = 1, kFirst = 2, kLast = 4;
// A record is a batch: sequence number of its first change u64, count u32, the changes. Numbers are little-endian.
constexpr size_t kBatchHeader = 12;

uint64_t Number(std::string_view bytes, size_t at, size_t size) {
  uint64_t number = 0;
  for (size_t i = size; i-- > 0;) number = number << 8 | static_cast<uint8_t>(bytes[at + i]);
  return number;
}

/// CRC-32C (Castagnoli) as RocksDB stores it: rotated by 15 bits plus a constant, so that a CRC over CRCs stays sound.
uint32_t MaskedCrc(std::string_view bytes) {
  static const auto table = [] {
    std::array<uint32_t, 256> out{};
    for (uint32_t i = 0; i < 256; ++i) {
      out[i] = i;
      for (int bit = 0; bit < 8; ++bit) out[i] = out[i] >> 1 ^ (out[i] & 1 ? 0x82f63b78u : 0);
    }
    return out;
  }();
  uint32_t crc = ~0u;
  for (const char byte : bytes) crc = crc >> 8 ^ table[(crc ^ static_cast<uint8_t>(byte)) & 0xff];
  crc = ~crc;
  return (crc >> 15 | crc << 17) + 0xa282ead8u;
}

struct Fragment {
  uint8_t type;
  size_t end;
};

/// The complete and intact fragment at `at`.
std::optional<Fragment> FragmentAt(std::string_view log, size_t at) {
  if (at + kHeader > log.size() || at % kBlock + kHeader > kBlock) return std::nullopt;
  const size_t length = Number(log, at + 4, 2), end = at + kHeader + length;
  const auto type = static_cast<uint8_t>(log[at + 6]);
  if (type < kFull || type > kLast || end > log.size() || at % kBlock + kHeader + length > kBlock) return std::nullopt;
  if (MaskedCrc(log.substr(at + 6, 1 + length)) != Number(log, at, 4)) return std::nullopt;
  return Fragment{type, end};
}

/// Start of the first incomplete record, and the last change before it.
struct IntactPrefix {
  size_t end = 0;
  uint64_t reached = 0;
};
IntactPrefix FindIntactPrefix(std::string_view log) {
  IntactPrefix out;
  size_t at = 0;
  uint64_t reached = 0;  // by the record being read
  for (;;) {
    if (kBlock - at % kBlock < kHeader) at += kBlock - at % kBlock;
    const auto fragment = FragmentAt(log, at);
    if (!fragment) return out;
    if ((fragment->type == kFull || fragment->type == kFirst) && fragment->end - at >= kHeader + kBatchHeader) {
      reached = Number(log, at + kHeader, 8) + Number(log, at + kHeader + 8, 4) - 1;
    }
    at = fragment->end;
    if (fragment->type == kFull || fragment->type == kLast) out = {at, reached};
  }
}

/// The log file with the highest number; empty if there is none.
std::string NewestLog(const std::string& folder) {
  std::string newest;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(folder, error)) {
    const std::string name = entry.path().filename().string();
    const bool numbered = name.ends_with(".log") && name.find_first_not_of("0123456789") == name.size() - 4;
    if (!numbered) continue;
    if (name.size() != newest.size() ? name.size() > newest.size() : name > newest) newest = name;
  }
  return newest.empty() ? "" : folder + "/" + newest;
}

/// The manifest that CURRENT names; empty if it names none.
std::string Manifest(const std::string& folder) {
  std::string name;
  std::ifstream(folder + "/CURRENT") >> name;
  return name.starts_with("MANIFEST-") && name.find('/') == std::string::npos ? folder + "/" + name : "";
}

Status SystemError(const std::string& name) { return IoError(name + ": " + std::strerror(errno)); }

/// Truncates only if the remaining log reaches change `known`.
Result<bool> TruncateFile(const std::string& name, uint64_t known) {
  if (name.empty()) return false;
  std::ostringstream content;
  content << std::ifstream(name, std::ios::binary).rdbuf();
  const std::string log = content.str();
  const IntactPrefix sound = FindIntactPrefix(log);
  if (sound.end >= log.size() || sound.reached < known) return false;
  for (size_t at = sound.end + 1; at < log.size(); ++at) {
    const auto fragment = FragmentAt(log, at);
    if (fragment && (fragment->type == kFull || fragment->type == kFirst)) return false;
  }
  const int file = open(name.c_str(), O_WRONLY | O_CLOEXEC | O_NOFOLLOW);
  if (file < 0) return SystemError(name);
  const bool cut = ftruncate(file, static_cast<off_t>(sound.end)) == 0 && fsync(file) == 0;
  const Status status = cut ? Status::Ok() : SystemError(name);
  close(file);
  RETURN_IF_ERROR(status);
  LogWarning("{}: truncated {} bytes of a torn write", name, log.size() - sound.end);
  return true;
}

}  // namespace

Result<bool> TruncateTornTail(const std::string& folder, uint64_t known) {
  ASSIGN_OR_RETURN(const bool rows, TruncateFile(NewestLog(folder), known));
  ASSIGN_OR_RETURN(const bool manifest, TruncateFile(Manifest(folder), 0));
  return rows || manifest;
}

}  // namespace ringside
