// The page's files as embedded by the build (embed.cmake). Constant.
// THREAD: any.
#pragma once

#include <span>
#include <string_view>

namespace ringside {

struct PageFile {
  std::string_view name;  // "index.html", "text/markdown.js"
  std::string_view bytes;
  std::string_view hash;  // of the contents, hexadecimal
};

std::span<const PageFile> PageFiles();

}  // namespace ringside
