#include "tests/golden_folder.h"

#include <cstdlib>

namespace ringside {

std::string GoldenFolder(const std::string& name) {
  const char* source = std::getenv("RINGSIDE_SOURCE");
  return std::string(source != nullptr ? source : RINGSIDE_SOURCE_DIR) + "/tests/golden/" + name;
}

}  // namespace ringside
