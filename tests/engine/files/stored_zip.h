// Builds small zip files for tests, member by member, as torch.save writes them.
#pragma once

#include <cstdint>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

namespace ringside {

/// `method` 0 is stored; the checksum is not verified by any reader here.
inline std::string StoredZip(const std::vector<std::pair<std::string, std::string>>& members, uint16_t method = 0) {
  const auto put = [](std::string* out, auto value) {
    out->append(reinterpret_cast<const char*>(&value), sizeof value);
  };
  std::string files, directory;
  for (const auto& [name, data] : members) {
    const auto at = static_cast<uint32_t>(files.size()), size = static_cast<uint32_t>(data.size());
    const auto common = [&](std::string* out) {
      put(out, uint16_t{20}), put(out, uint16_t{0}), put(out, method), put(out, uint32_t{0}), put(out, uint32_t{0});
      put(out, size), put(out, size), put(out, static_cast<uint16_t>(name.size())), put(out, uint16_t{0});
    };
    put(&files, uint32_t{0x04034b50}), common(&files);
    files += name + data;
    put(&directory, uint32_t{0x02014b50}), put(&directory, uint16_t{20}), common(&directory);
    put(&directory, uint16_t{0}), put(&directory, uint16_t{0}), put(&directory, uint16_t{0});
    put(&directory, uint32_t{0}), put(&directory, at);
    directory += name;
  }
  std::string end;
  put(&end, uint32_t{0x06054b50}), put(&end, uint32_t{0});
  put(&end, static_cast<uint16_t>(members.size())), put(&end, static_cast<uint16_t>(members.size()));
  put(&end, static_cast<uint32_t>(directory.size())), put(&end, static_cast<uint32_t>(files.size()));
  put(&end, uint16_t{0});
  return files + directory + end;
}

}  // namespace ringside
