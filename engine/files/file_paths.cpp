#include "engine/files/file_paths.h"

#include <fmt/format.h>

#include <filesystem>

namespace ringside {

Status CheckInside(const std::string& folder, const std::string& file) {
  std::error_code error;
  const std::filesystem::path root = std::filesystem::canonical(folder, error);
  if (error) return NotFound(fmt::format("{}: {}", folder, error.message()));
  const std::filesystem::path target = std::filesystem::canonical(file, error);
  if (error) return NotFound(fmt::format("{}: {}", file, error.message()));
  const std::filesystem::path way = target.lexically_relative(root);
  if (way.empty() || *way.begin() == "..") {
    return InvalidArgument(fmt::format("{}: is a link to a place outside {}", file, folder));
  }
  return Status::Ok();
}

Status WithPath(const std::string& path, const Status& status) {
  if (status.ok() || status.message().starts_with(path)) return status;
  return {status.code(), fmt::format("{}: {}", path, status.message())};
}

}  // namespace ringside
