#include "clients/chat/repl/own_editor.h"

#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "clients/terminal/text_width.h"

namespace ringside::client {
namespace {

constexpr size_t kMostBytes = 4u << 20;  // the server's message size limit

/// The editor command, interpreted by the shell: it may have arguments.
std::string EditorCommand() {
  for (const char* name : {"VISUAL", "EDITOR"}) {
    const char* value = std::getenv(name);
    if (value != nullptr && value[0] != '\0') return value;
  }
  return "vi";
}

/// A private file that is deleted with this object.
class Draft {
 public:
  explicit Draft(const std::string& text) {
    std::error_code ignored;
    path_ = (std::filesystem::temp_directory_path(ignored) / "ringside-XXXXXX.md").string();
    const int file = ::mkstemps(path_.data(), 3);
    made_ = file >= 0;
    if (!made_) return;
    ::close(file);
    std::ofstream(path_) << text;
  }
  ~Draft() {
    if (made_) ::unlink(path_.c_str());
  }
  Draft(const Draft&) = delete;
  Draft& operator=(const Draft&) = delete;

  bool made() const { return made_; }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
  bool made_ = false;
};

/// Exit status of the shell that runs the editor; -1 if it could not be started.
int Run(const std::string& editor, const std::string& path) {
  const std::string script = "exec " + editor + " \"$1\"";
  const pid_t child = ::fork();
  if (child < 0) return -1;
  if (child == 0) {
    ::execl("/bin/sh", "sh", "-c", script.c_str(), "sh", path.c_str(), static_cast<char*>(nullptr));
    ::_exit(127);
  }
  int status = 0;
  while (::waitpid(child, &status, 0) < 0) {
    if (errno != EINTR) return -1;
  }
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

}  // namespace

Outcome<std::string> WriteInEditor(Terminal& terminal, const std::string& draft) {
  const Draft file(draft);
  if (!file.made()) return Failure{"Cannot create a temporary file: " + std::string(std::strerror(errno)) + "."};
  const std::string editor = EditorCommand();
  terminal.LeaveRawMode();
  const int status = Run(editor, file.path());
  terminal.EnterRawMode();
  if (status != 0) return Failure{"The editor (" + editor + ", from VISUAL or EDITOR) failed; nothing is sent."};
  std::ifstream saved(file.path(), std::ios::binary);
  std::string text{std::istreambuf_iterator<char>(saved), std::istreambuf_iterator<char>()};
  if (text.size() > kMostBytes) return Failure{"The saved text is longer than 4 MiB, the limit of a message."};
  if (!IsUtf8(text)) return Failure{"The saved text is not UTF-8."};
  const size_t end = text.find_last_not_of(" \t\r\n");
  text.erase(end == std::string::npos ? 0 : end + 1);
  return text;
}

}  // namespace ringside::client
