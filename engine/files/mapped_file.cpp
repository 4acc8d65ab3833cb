#include "engine/files/mapped_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <cstring>
#include <string_view>

namespace ringside {
namespace {

Status FileError(const std::string& path, int error) {
  std::string message = fmt::format("{}: {}", path, std::strerror(error));
  return error == ENOENT || error == ENOTDIR ? NotFound(std::move(message)) : IoError(std::move(message));
}

/// What a failed download leaves in place of a file.
struct Placeholder {
  std::string_view start;  // of the file, in lower case
  const char* what;
};
constexpr Placeholder kPlaceholders[] = {
    {"version https://git-lfs.github.com/spec/",
     "a Git LFS pointer, not the file itself; fetch the file with `git lfs pull`, or download it from its page"},
    {"<!doctype html",
     "a web page, not the file; download the file itself (from Hugging Face with /resolve/ in place "
     "of /blob/ in the address)"},
    {"<html",
     "a web page, not the file; download the file itself (from Hugging Face with /resolve/ in place of /blob/ "
     "in the address)"},
};

constexpr size_t kPlaceholderBytes = 256;

Status CheckIsNoPlaceholder(const std::string& path, std::string_view bytes) {
  const std::string_view text = bytes.substr(std::min(bytes.find_first_not_of(" \t\r\n"), bytes.size()));
  const auto same = [](char a, char b) { return std::tolower(static_cast<unsigned char>(a)) == b; };
  for (const Placeholder& placeholder : kPlaceholders) {
    if (!std::ranges::equal(text.substr(0, placeholder.start.size()), placeholder.start, same)) continue;
    return InvalidArgument(fmt::format("{}: {}", path, placeholder.what));
  }
  return Status::Ok();
}

}  // namespace

Result<std::shared_ptr<const MappedFile>> MappedFile::Open(const std::string& path) {
  // O_NONBLOCK: open must not block on a FIFO of that name.
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0) return FileError(path, errno);
  struct stat info {};
  if (::fstat(fd, &info) != 0) {
    const int error = errno;
    ::close(fd);
    return FileError(path, error);
  }
  if (!S_ISREG(info.st_mode)) {
    ::close(fd);
    return IoError(fmt::format("{}: not a regular file", path));
  }
  const auto size = static_cast<size_t>(info.st_size);
  void* data = nullptr;
  if (size > 0) {
    data = ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE, fd, 0);
    if (data == MAP_FAILED) {
      const int error = errno;
      ::close(fd);
      return FileError(path, error);
    }
  }
  ::close(fd);
  std::shared_ptr<const MappedFile> file(new MappedFile(path, {static_cast<const std::byte*>(data), size}));
  RETURN_IF_ERROR(CheckIsNoPlaceholder(path, {static_cast<const char*>(data), std::min(size, kPlaceholderBytes)}));
  return file;
}

MappedFile::~MappedFile() {
  if (!bytes_.empty()) ::munmap(const_cast<std::byte*>(bytes_.data()), bytes_.size());
}

}  // namespace ringside
