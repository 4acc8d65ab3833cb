#include "base/cli/sibling_program.h"

#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <system_error>

#include "base/cli/command_line.h"

namespace ringside {

std::string SiblingProgram(const std::string& name) {
  std::error_code error;
  const auto sibling = std::filesystem::read_symlink("/proc/self/exe", error).parent_path() / name;
  return std::filesystem::exists(sibling, error) ? sibling.string() : name;
}

void ExecuteWords(std::vector<std::string>& words) {
  std::vector<char*> raw;
  for (std::string& word : words) raw.push_back(word.data());
  raw.push_back(nullptr);
  execvp(raw[0], raw.data());
}

int RunSibling(const std::string& name, char** argv) {
  std::string path = SiblingProgram(name);
  argv[0] = path.data();
  execvp(path.c_str(), argv);
  std::fprintf(stderr, "cannot run %s, which has this command: %s%s\n", name.c_str(), std::strerror(errno),
               errno == ENOENT ? " (./scripts/build builds it)" : "");
  return kCommandFailed;
}

}  // namespace ringside
