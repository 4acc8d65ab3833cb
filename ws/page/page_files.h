// The files of the page as the build put them into the program (embed.cmake). Constant; any thread.
#pragma once

#include <span>
#include <string_view>

namespace ringside {

struct PageFile {
  std::string_view name;  // "index.html"
  std::string_view bytes;
  std::string_view hash;  // of the bytes, hexadecimal
};

std::span<const PageFile> PageFiles();

}  // namespace ringside
