// The archive formats of PyTorch checkpoints: zip files with uncompressed members (torch.save), and tar files (.nemo).
// Hostile input: every offset, length and name is checked. Pure functions.
#pragma once

#include <map>
#include <span>
#include <string>
#include <string_view>

#include "base/status.h"

namespace ringside {

/// Name to bytes, borrowed from the archive.
using ArchiveMembers = std::map<std::string, std::span<const std::byte>, std::less<>>;

/// ERRORS: kCorruption, with `source` and the reason, for a malformed zip file; kInvalidArgument for a compressed or
/// encrypted member.
Result<ArchiveMembers> ReadZip(std::span<const std::byte> archive, const std::string& source);

/// Regular files only; names without a leading "./". ERRORS: as ReadZip; kInvalidArgument for a compressed archive.
Result<ArchiveMembers> ReadTar(std::span<const std::byte> archive, const std::string& source);

}  // namespace ringside
