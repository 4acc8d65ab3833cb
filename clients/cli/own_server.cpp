#include "clients/cli/own_server.h"

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <thread>
#include <vector>

#include "base/cli/sibling_program.h"
#include "clients/cli/health.h"
#include "clients/terminal/history.h"

namespace ringside::client {
namespace {

constexpr auto kLookEvery = std::chrono::milliseconds(50);
constexpr size_t kShownLogLines = 5;
constexpr int kStoreInUse = 73;  // the server's exit code

std::string ReadLog(const std::string& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

std::string LastLines(const std::string& text) {
  size_t begin = text.size();
  for (size_t lines = 0; begin > 0 && lines <= kShownLogLines; --begin) lines += text[begin - 1] == '\n' ? 1 : 0;
  return text.substr(begin);
}

/// Runs in the child: executes the server, or exits with 127.
[[noreturn]] void BecomeServer(std::vector<std::string> arguments, const std::string& log) {
  ::setsid();                          // Ctrl-C is meant for the chat
  ::prctl(PR_SET_PDEATHSIG, SIGTERM);  // the server ends with a killed client
  const int nothing = ::open("/dev/null", O_RDONLY);
  const int file = ::open(log.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
  ::dup2(nothing, STDIN_FILENO);
  ::dup2(file, STDOUT_FILENO);
  ::dup2(file, STDERR_FILENO);
  ExecuteWords(arguments);
  std::fprintf(stderr, "cannot start %s: %s\n", arguments[0].c_str(), std::strerror(errno));
  std::fflush(stderr);
  ::_exit(127);
}

}  // namespace

std::string DataFolder() {
  const char* data = std::getenv("XDG_DATA_HOME");
  const char* home = std::getenv("HOME");
  if (data != nullptr && data[0] == '/') return std::string(data) + "/ringside/run";
  return home != nullptr && home[0] == '/' ? std::string(home) + "/.local/share/ringside/run" : "";
}

Outcome<std::unique_ptr<OwnServer>> OwnServer::Start(const std::string& model, const Purpose& purpose) {
  const std::string state = StateFolder();
  if (state.empty()) return Failure{"There is no folder for the server's log: set HOME or XDG_STATE_HOME."};
  std::vector<std::string> arguments = {
      SiblingProgram("ringside-server"), "--model", model, "--host", "127.0.0.1", "--port", "0"};
  if (!purpose.store_path.empty()) {
    std::error_code ignored;  // the server reports a bad folder
    std::filesystem::create_directories(std::filesystem::path(purpose.store_path).parent_path(), ignored);
    arguments.insert(arguments.end(), {"--store-path", purpose.store_path});
  }
  const std::string log = state + "/" + purpose.log;
  std::fprintf(stderr, "Starting ringside-server with %s; its log: %s\n",
               std::filesystem::path(model).filename().c_str(), log.c_str());
  const pid_t pid = ::fork();
  if (pid < 0) return Failure{"Cannot start a process: " + std::string(std::strerror(errno)) + "."};
  if (pid == 0) BecomeServer(std::move(arguments), log);
  std::unique_ptr<OwnServer> server(new OwnServer(pid, log));
  const Outcome<Done> ready = server->WaitUntilReady();
  if (!ready) return ready.failure();
  return server;
}

bool OwnServer::IsReady() {
  constexpr std::string_view kAddress = "http://127.0.0.1:";
  const std::string log = ReadLog(log_);
  const size_t at = log.find(kAddress);
  if (at == std::string::npos) return false;
  const char* begin = log.data() + at + kAddress.size();
  if (std::from_chars(begin, log.data() + log.size(), url_.port).ec != std::errc()) return false;
  return AskWhetherReady(url_).ok();
}

Outcome<Done> OwnServer::WaitUntilReady() {
  while (true) {
    int status = 0;
    if (::waitpid(pid_, &status, WNOHANG) == pid_) {
      pid_ = 0;
      if (WIFEXITED(status) && WEXITSTATUS(status) == kStoreInUse) {
        return Failure{"Another server uses the folder for the conversations; choose another with --store-path."};
      }
      return Failure{"The server exited:\n" + LastLines(ReadLog(log_))};
    }
    if (IsReady()) return Done{};
    std::this_thread::sleep_for(kLookEvery);
  }
}

OwnServer::~OwnServer() {
  if (pid_ == 0) return;
  ::kill(pid_, SIGTERM);
  while (::waitpid(pid_, nullptr, 0) < 0 && errno == EINTR) {
  }
}

}  // namespace ringside::client
