// Source of a golden chat template.
#pragma once

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "tests/golden_folder.h"

namespace ringside {

/// The Jinja source tests/golden/chat_template/NAME.jinja.
inline std::string GoldenTemplate(const std::string& name) {
  std::ifstream file(GoldenFolder("chat_template/") + name + ".jinja", std::ios::binary);
  std::stringstream bytes;
  bytes << file.rdbuf();
  return bytes.str();
}

/// The names of all golden templates, in order.
inline std::vector<std::string> GoldenTemplateNames() {
  std::vector<std::string> names;
  for (const auto& file : std::filesystem::directory_iterator(GoldenFolder("chat_template/"))) {
    if (file.path().extension() == ".jinja") names.push_back(file.path().stem().string());
  }
  std::ranges::sort(names);
  return names;
}

}  // namespace ringside
