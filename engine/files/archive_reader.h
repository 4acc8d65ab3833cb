// The two kinds of archives that checkpoints of PyTorch come in: zip files whose members are stored as they are
// (torch.save), and tar files (.nemo). Read as hostile input: every offset, length and name is checked. Pure functions.
#pragma once

#include <map>
#include <span>
#include <string>
#include <string_view>

#include "base/status.h"

namespace ringside {

/// Name to bytes, borrowed from the archive.
using ArchiveMembers = std::map<std::string, std::span<const std::byte>, std::less<>>;

/// kCorruption, naming `source` and what is wrong, for what is no sound zip file; kInvalidArgument for a member that is
/// compressed or encrypted.
Result<ArchiveMembers> ReadZip(std::span<const std::byte> archive, const std::string& source);

/// Regular files only; names without "./" in front. Errors as above; kInvalidArgument for an archive that is
/// compressed.
Result<ArchiveMembers> ReadTar(std::span<const std::byte> archive, const std::string& source);

}  // namespace ringside
