// Source of a golden chat template.
#pragma once

#include <fstream>
#include <sstream>
#include <string>

#include "tests/golden_folder.h"

namespace ringside {

/// The Jinja source tests/golden/chat_template/NAME.jinja.
inline std::string GoldenTemplate(const std::string& name) {
  std::ifstream file(GoldenFolder("chat_template/") + name + ".jinja", std::ios::binary);
  std::stringstream bytes;
  bytes << file.rdbuf();
  return bytes.str();
}

}  // namespace ringside
