#include "engine/import/archive_reader.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

namespace ringside {
namespace {

constexpr size_t kMaxMembers = 1 << 17;
constexpr size_t kMaxNameBytes = 4096;

using Bytes = std::span<const std::byte>;

std::string_view Text(Bytes bytes) { return {reinterpret_cast<const char*>(bytes.data()), bytes.size()}; }

template <class T>
T ReadAt(Bytes bytes, size_t at) {
  T value{};
  std::memcpy(&value, bytes.data() + at, sizeof(T));
  return value;
}

/// bytes[begin, begin + size), if in range.
bool Cut(Bytes bytes, uint64_t begin, uint64_t size, Bytes* out) {
  if (begin > bytes.size() || size > bytes.size() - begin) return false;
  *out = bytes.subspan(begin, size);
  return true;
}

struct Directory {
  uint64_t begin = 0, size = 0, members = 0;
};

// The end record of a zip file, which a comment may follow; large files have a second record before it.
bool FindDirectory(Bytes archive, Directory* directory) {
  constexpr size_t kEnd = 22, kLocator = 20, kLargeEnd = 56;
  if (archive.size() < kEnd) return false;
  const size_t last = archive.size() - kEnd, first = last > 0xffff ? last - 0xffff : 0;
  size_t at = last + 1;
  do {
    if (at-- == first) return false;
  } while (ReadAt<uint32_t>(archive, at) != 0x06054b50);
  *directory = {ReadAt<uint32_t>(archive, at + 16), ReadAt<uint32_t>(archive, at + 12),
                ReadAt<uint16_t>(archive, at + 10)};
  if (at < kLocator || ReadAt<uint32_t>(archive, at - kLocator) != 0x07064b50) return true;
  Bytes end;
  if (!Cut(archive, ReadAt<uint64_t>(archive, at - kLocator + 8), kLargeEnd, &end)) return false;
  if (ReadAt<uint32_t>(end, 0) != 0x06064b50) return false;
  *directory = {ReadAt<uint64_t>(end, 48), ReadAt<uint64_t>(end, 40), ReadAt<uint64_t>(end, 32)};
  return true;
}

struct ZipMember {
  std::string name;
  uint64_t size = 0, stored = 0, header = 0;
  uint16_t method = 0, flags = 0;
};

// Consumes the next directory entry.
bool ConsumeEntry(Bytes* entries, ZipMember* member) {
  constexpr size_t kEntry = 46;
  if (entries->size() < kEntry || ReadAt<uint32_t>(*entries, 0) != 0x02014b50) return false;
  member->flags = ReadAt<uint16_t>(*entries, 8);
  member->method = ReadAt<uint16_t>(*entries, 10);
  member->stored = ReadAt<uint32_t>(*entries, 20);
  member->size = ReadAt<uint32_t>(*entries, 24);
  member->header = ReadAt<uint32_t>(*entries, 42);
  const size_t name = ReadAt<uint16_t>(*entries, 28), extra = ReadAt<uint16_t>(*entries, 30),
               comment = ReadAt<uint16_t>(*entries, 32);
  Bytes named, more;
  if (name > kMaxNameBytes || !Cut(*entries, kEntry, name, &named)) return false;
  if (!Cut(*entries, kEntry + name, extra, &more) || entries->size() < kEntry + name + extra + comment) return false;
  member->name = Text(named);
  // Values that exceed 32 bits are in a separate field, in this order.
  while (more.size() >= 4) {
    const uint16_t kind = ReadAt<uint16_t>(more, 0), size = ReadAt<uint16_t>(more, 2);
    Bytes field;
    if (!Cut(more, 4, size, &field)) return false;
    for (uint64_t* value : {&member->size, &member->stored, &member->header}) {
      if (kind != 1 || *value != 0xffffffff) continue;
      if (field.size() < 8) return false;
      *value = ReadAt<uint64_t>(field, 0);
      field = field.subspan(8);
    }
    more = more.subspan(4 + size);
  }
  *entries = entries->subspan(kEntry + name + extra + comment);
  return true;
}

bool FindData(Bytes archive, const ZipMember& member, Bytes* data) {
  constexpr size_t kHeader = 30;
  Bytes header;
  if (!Cut(archive, member.header, kHeader, &header) || ReadAt<uint32_t>(header, 0) != 0x04034b50) return false;
  const uint64_t skip = kHeader + uint64_t{ReadAt<uint16_t>(header, 26)} + ReadAt<uint16_t>(header, 28);
  return Cut(archive, member.header + skip, member.size, data);
}

// A number in a tar header: octal digits, or big-endian bytes after one with its highest bit set.
bool TarNumber(Bytes field, uint64_t* value) {
  *value = 0;
  if ((std::to_integer<unsigned>(field[0]) & 0x80) != 0) {
    for (size_t i = 1; i < field.size(); ++i) {
      if (*value >> 56 != 0) return false;
      *value = *value << 8 | std::to_integer<uint64_t>(field[i]);
    }
    return true;
  }
  for (const char c : Text(field)) {
    if (c == ' ' || c == '\0') continue;
    if (c < '0' || c > '7' || *value >> 60 != 0) return false;
    *value = *value << 3 | static_cast<uint64_t>(c - '0');
  }
  return true;
}

std::string ReadCString(Bytes field) {
  const std::string_view text = Text(field);
  return std::string(text.substr(0, text.find('\0')));
}

// Records of an extended header for the next member: "25 path=...\n".
bool ReadRecords(std::string_view records, std::string* name, uint64_t* size) {
  while (!records.empty() && records.front() != '\0') {
    const size_t space = records.find(' ');
    if (space == 0 || space > 8) return false;
    size_t length = 0;
    for (const char c : records.substr(0, space)) {
      if (c < '0' || c > '9') return false;
      length = length * 10 + static_cast<size_t>(c - '0');
    }
    if (length <= space + 1 || length > records.size() || records[length - 1] != '\n') return false;
    const std::string_view record = records.substr(space + 1, length - space - 2);
    if (record.starts_with("path=")) *name = record.substr(5);
    if (record.starts_with("size=")) {
      *size = 0;
      for (const char c : record.substr(5)) {
        if (c < '0' || c > '9' || *size > (uint64_t{1} << 58)) return false;
        *size = *size * 10 + static_cast<uint64_t>(c - '0');
      }
    }
    records.remove_prefix(length);
  }
  return true;
}

}  // namespace

Result<ArchiveMembers> ReadZip(Bytes archive, const std::string& source) {
  const auto damaged = [&](const std::string& what) { return Corruption(fmt::format("{}: {}", source, what)); };
  Directory directory;
  Bytes entries;
  if (!FindDirectory(archive, &directory) || !Cut(archive, directory.begin, directory.size, &entries)) {
    return damaged("not a zip file, the format of torch.save since PyTorch 1.6");
  }
  if (directory.members > kMaxMembers) return damaged(fmt::format("{} members are too many", directory.members));
  ArchiveMembers members;
  for (uint64_t i = 0; i < directory.members; ++i) {
    ZipMember member;
    Bytes data;
    if (!ConsumeEntry(&entries, &member)) return damaged(fmt::format("member {} of the zip file is damaged", i));
    if (member.method != 0 || (member.flags & 1) != 0 || member.stored != member.size) {
      return InvalidArgument(fmt::format("{}: '{}' is compressed or encrypted", source, member.name));
    }
    if (!FindData(archive, member, &data)) return damaged(fmt::format("'{}' is truncated", member.name));
    if (!members.emplace(member.name, data).second) return damaged(fmt::format("'{}' occurs twice", member.name));
  }
  return members;
}

Result<ArchiveMembers> ReadTar(Bytes archive, const std::string& source) {
  constexpr size_t kBlock = 512;
  const auto damaged = [&](const std::string& what) { return Corruption(fmt::format("{}: {}", source, what)); };
  if (archive.size() >= 2 && ReadAt<uint16_t>(archive, 0) == 0x8b1f) {
    return InvalidArgument(source + ": compressed; unpack it with gunzip first");
  }
  ArchiveMembers members;
  std::string long_name;
  uint64_t long_size = UINT64_MAX;
  for (uint64_t at = 0;;) {
    Bytes header, data;
    if (!Cut(archive, at, kBlock, &header)) return damaged("ends within a tar archive");
    if (std::ranges::all_of(header, [](std::byte b) { return b == std::byte{0}; })) return members;
    if (!Text(header.subspan(257)).starts_with("ustar")) return damaged("not a tar archive");
    const char kind = Text(header)[156];
    uint64_t size = 0;
    if (!TarNumber(header.subspan(124, 12), &size)) return damaged("a member of a tar archive has no size");
    const bool describes = kind == 'x' || kind == 'g' || kind == 'L' || kind == 'K';
    if (!describes && long_size != UINT64_MAX) size = long_size;
    if (!Cut(archive, at + kBlock, size, &data)) return damaged("a member of a tar archive is truncated");
    at += kBlock + (size + kBlock - 1) / kBlock * kBlock;
    if (kind == 'L') long_name = ReadCString(data);
    if (kind == 'x' && !ReadRecords(Text(data), &long_name, &long_size)) return damaged("a tar header is damaged");
    if (describes) continue;
    std::string name = ReadCString(header.subspan(0, 100));
    if (const std::string folder = ReadCString(header.subspan(345, 155)); !folder.empty()) name = folder + "/" + name;
    if (!long_name.empty()) name = std::move(long_name);
    long_name.clear(), long_size = UINT64_MAX;
    while (name.starts_with("./")) name.erase(0, 2);
    if (kind != '0' && kind != '\0') continue;
    if (members.size() >= kMaxMembers || name.size() > kMaxNameBytes)
      return damaged("too many members, or too long names");
    if (!members.emplace(name, data).second) return damaged(fmt::format("'{}' occurs twice", name));
  }
}

}  // namespace ringside
