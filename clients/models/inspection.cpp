#include "clients/models/inspection.h"

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>

#include "base/cli/sibling_program.h"
#include "base/json/json_tree.h"
#include "clients/models/memory_rate.h"
#include "clients/wire/json_fields.h"

namespace ringside::client {
namespace {

constexpr const char* kServer = "ringside-server";
constexpr size_t kMaxOutputBytes = 64u << 20;
constexpr size_t kPathsPerProcess = 200;  // a command line is bounded

/// Runs in the child: executes the program with its output in `out`.
[[noreturn]] void Become(std::vector<std::string>& command, int out) {
  const int nothing = ::open("/dev/null", O_RDWR);
  ::dup2(nothing, STDIN_FILENO);
  ::dup2(out, STDOUT_FILENO);
  ::dup2(nothing, STDERR_FILENO);
  ExecuteWords(command);
  ::_exit(127);
}

/// The program's standard output. Fails if it cannot be run; a crash ends the output early.
Outcome<std::string> OutputOf(std::vector<std::string> command) {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) return Failure{std::string("Cannot make a pipe: ") + std::strerror(errno) + "."};
  const pid_t pid = ::fork();
  if (pid == 0) Become(command, ends[1]);
  ::close(ends[1]);
  std::string output;
  char part[65536];
  for (ssize_t got = 0; pid > 0 && output.size() < kMaxOutputBytes;) {
    got = ::read(ends[0], part, sizeof part);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) break;
    output.append(part, static_cast<size_t>(got));
  }
  ::close(ends[0]);
  int status = 0;
  while (pid > 0 && ::waitpid(pid, &status, 0) < 0 && errno == EINTR) {
  }
  const bool missing = WIFEXITED(status) && WEXITSTATUS(status) == 127;
  if (pid < 0 || missing) return Failure{std::string("Cannot run ") + kServer + ", which inspects models."};
  return output;
}

Inspection ReadLine(const nlohmann::json& line) {
  Inspection read;
  const nlohmann::json* loads = Find(line, "loads");
  read.loads = loads != nullptr && loads->is_boolean() && loads->get<bool>();
  read.reason = Text(line, "reason");
  read.architecture = Text(line, "architecture");
  for (const auto& [name, value] : {std::pair("context", &Inspection::context),
                                    {"weight_bytes", &Inspection::weight_bytes},
                                    {"token_bytes", &Inspection::token_bytes},
                                    {"cache_bytes", &Inspection::cache_bytes},
                                    {"cache_tokens", &Inspection::cache_tokens},
                                    {"machine_bytes", &Inspection::machine_bytes}}) {
    read.*value = Count(line, name);
  }
  const std::string path = Text(line, "path") + ": ";
  if (read.reason.starts_with(path)) read.reason.erase(0, path.size());
  return read;
}

}  // namespace

double Inspection::TokenRate(double memory_rate) const {
  return token_bytes > 0 ? kDecodeShare * memory_rate / static_cast<double>(token_bytes) : 0;
}

Outcome<std::vector<Inspection>> InspectModels(const std::vector<std::string>& paths) {
  std::map<std::string, Inspection> by_path;
  for (size_t from = 0; from < paths.size(); from += kPathsPerProcess) {
    const auto first = paths.begin() + static_cast<ptrdiff_t>(from);
    std::vector<std::string> command = {SiblingProgram(kServer), "inspect", "--"};
    command.insert(command.end(), first,
                   first + static_cast<ptrdiff_t>(std::min(kPathsPerProcess, paths.size() - from)));
    const Outcome<std::string> output = OutputOf(std::move(command));
    if (!output) return output.failure();
    std::istringstream lines(*output);
    for (std::string line; std::getline(lines, line);) {
      const nlohmann::json json = ParseJsonTree(line);
      by_path[Text(json, "path")] = ReadLine(json);
    }
  }
  std::vector<Inspection> found;
  for (const std::string& path : paths) {
    const auto at = by_path.find(path);
    found.push_back(at != by_path.end() ? at->second : Inspection{.reason = "the server cannot inspect this file"});
  }
  return found;
}

}  // namespace ringside::client
