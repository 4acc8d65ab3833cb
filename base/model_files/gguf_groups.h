// Groups the GGUF files of a repository or folder into models. Shared by the server and its clients. Pure. THREAD: any.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace ringside {

/// One model: a file, or all parts of a split one in order.
struct GgufModel {
  std::string name;                // of the file, without folders, part numbers and ending
  std::string quantisation;        // "Q4_K_M"; "" if the name has none
  std::vector<std::string> files;  // as given
};

/// The models among these paths. Leaves out other files, image projectors (mmproj), importance matrices, and split
/// models that lack a part.
std::vector<GgufModel> GroupGgufFiles(std::span<const std::string> paths);

bool EqualsIgnoringCase(std::string_view a, std::string_view b);

}  // namespace ringside
