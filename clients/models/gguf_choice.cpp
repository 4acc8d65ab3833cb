#include "clients/models/gguf_choice.h"

#include <algorithm>
#include <cctype>
#include <map>
#include <regex>

namespace ringside::client {
namespace {

constexpr size_t kMaxNameBytes = 255;  // of a file, in any file system

/// From the first choice to the last.
constexpr std::string_view kPreferred[] = {"Q4_K_M", "UD-Q4_K_M", "MXFP4",  "MXFP4_MOE", "UD-Q4_K_XL",
                                           "Q4_K_S", "Q4_0",      "IQ4_XS", "Q4_1",      "Q5_K_M",
                                           "Q6_K",   "Q8_0",      "Q3_K_M", "BF16",      "F16"};

char Lower(char c) { return static_cast<char>(std::tolower(static_cast<unsigned char>(c))); }

std::string LastName(const std::string& path) { return path.substr(path.rfind('/') + 1); }

/// "Q4_K_M" of "Qwen3-4B-Q4_K_M", "mxfp4" of "gpt-oss-20b-mxfp4"; "" if there is none.
std::string QuantisationOf(const std::string& name) {
  static const std::regex kAtEnd(R"((?:^|[-._])((?:UD-)?(?:I?Q[1-8]_\w+|TQ[12]_0|BF16|FP?16|F32|MXFP4\w*|NVFP4))$)",
                                 std::regex::icase);
  std::smatch match;
  return std::regex_search(name, match, kAtEnd) ? match[1].str() : "";
}

/// "UD-Q4_K_M" also serves for "Q4_K_M": some repositories have only variants that mix types by tensor.
bool Serves(const GgufModel& model, std::string_view quantisation) {
  return EqualsIgnoringCase(model.quantisation, quantisation) || EqualsIgnoringCase(model.name, quantisation) ||
         EqualsIgnoringCase(model.quantisation, "UD-" + std::string(quantisation));
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

Outcome<GgufModel> ChooseGguf(std::span<const GgufModel> models, std::string_view quantisation) {
  const auto wanted = [&](std::string_view kind) -> const GgufModel* {
    const auto found = std::ranges::find_if(models, [&](const GgufModel& model) { return Serves(model, kind); });
    return found == models.end() ? nullptr : &*found;
  };
  if (!quantisation.empty()) {
    if (const GgufModel* model = wanted(quantisation)) return *model;
  } else {
    for (const std::string_view kind : kPreferred) {
      if (const GgufModel* model = wanted(kind)) return *model;
    }
    if (models.size() == 1) return models.front();
  }
  std::string choices;
  for (const GgufModel& model : models) {
    choices += (choices.empty() ? "" : ", ") + (model.quantisation.empty() ? model.name : model.quantisation);
  }
  if (quantisation.empty()) return Failure{"Choose one of its files: " + choices + "."};
  return Failure{"It has no file in " + std::string(quantisation) + "; it has " + choices + "."};
}

}  // namespace ringside::client
