#include "base/model_files/gguf_groups.h"

#include <algorithm>
#include <cctype>
#include <map>
#include <regex>

namespace ringside {
namespace {

constexpr size_t kMaxNameBytes = 255;  // of a file, in any file system

char Lower(char c) { return static_cast<char>(std::tolower(static_cast<unsigned char>(c))); }

std::string LastName(const std::string& path) { return path.substr(path.rfind('/') + 1); }

/// "Q4_K_M" of "Qwen3-4B-Q4_K_M", "mxfp4" of "gpt-oss-20b-mxfp4"; "" if there is none.
std::string QuantisationOf(const std::string& name) {
  static const std::regex kAtEnd(R"((?:^|[-._])((?:UD-)?(?:I?Q[1-8]_\w+|TQ[12]_0|BF16|FP?16|F32|MXFP4\w*|NVFP4))$)",
                                 std::regex::icase);
  std::smatch match;
  return std::regex_search(name, match, kAtEnd) ? match[1].str() : "";
}

}  // namespace

bool EqualsIgnoringCase(std::string_view a, std::string_view b) { return std::ranges::equal(a, b, {}, Lower, Lower); }

std::vector<GgufModel> GroupGgufFiles(std::span<const std::string> paths) {
  static const std::regex kFile(R"(([^\x00-\x1f]*?)(?:-(\d{5})-of-(\d{5}))?\.gguf)");
  struct Group {
    GgufModel model;
    size_t parts = 1;
  };
  std::map<std::string, Group> groups;  // by path without the part's number
  std::vector<std::string> sorted(paths.begin(), paths.end());
  std::ranges::sort(sorted);
  for (const std::string& path : sorted) {
    std::smatch match;
    const std::string file = LastName(path);
    if (file.size() > kMaxNameBytes || !std::regex_match(file, match, kFile)) continue;
    std::string lower = file;
    std::ranges::transform(lower, lower.begin(), Lower);
    if (lower.find("mmproj") != std::string::npos || lower.find("imatrix") != std::string::npos) continue;
    Group& group = groups[path.substr(0, path.size() - file.size()) + match[1].str() + "/" + match[3].str()];
    group.model.name = match[1];
    group.model.quantisation = QuantisationOf(match[1]);
    if (match[3].matched) group.parts = std::stoul(match[3]);
    group.model.files.push_back(path);
  }
  std::vector<GgufModel> models;
  for (auto& [path, group] : groups) {
    if (group.model.files.size() == group.parts) models.push_back(std::move(group.model));
  }
  return models;
}

}  // namespace ringside
