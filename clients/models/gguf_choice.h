// Groups the GGUF files of a repository or folder into models, and chooses one by its quantisation. Pure. THREAD: any.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "clients/wire/outcome.h"

namespace ringside::client {

/// One model: a file, or all parts of a split one in order.
struct GgufModel {
  std::string name;                // of the file, without folders, part numbers and ending
  std::string quantisation;        // "Q4_K_M"; "" if the name has none
  std::vector<std::string> files;  // as given
};

/// The models among these paths. Leaves out other files, image projectors (mmproj), importance matrices, and split
/// models that lack a part.
std::vector<GgufModel> GroupGgufFiles(std::span<const std::string> paths);

/// The model of this quantisation, without regard to case; if it is empty, the one that suits most machines (Q4_K_M if
/// there is one). Fails with a sentence that lists the choices.
Outcome<GgufModel> ChooseGguf(std::span<const GgufModel> models, std::string_view quantisation);

bool EqualsIgnoringCase(std::string_view a, std::string_view b);

}  // namespace ringside::client
