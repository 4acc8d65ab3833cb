#include "clients/chat/repl/clipboard.h"

#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>

#include "clients/chat/repl/base64.h"

namespace ringside::client {
namespace {

struct ClipboardProgram {
  const char* variable;  // set on the desktops that have the program
  const char* name;
  const char* command;
};
constexpr ClipboardProgram kPrograms[] = {
    {"WAYLAND_DISPLAY", "wl-copy", "wl-copy"},       {"DISPLAY", "xclip", "xclip -selection clipboard"},
    {"DISPLAY", "xsel", "xsel --clipboard --input"}, {"HOME", "pbcopy", "pbcopy"},
    {"TMUX", "tmux", "tmux load-buffer -w -"},
};

bool IsOnPath(const std::string& name) {
  const char* path = std::getenv("PATH");
  std::string_view rest = path != nullptr ? path : "";
  while (!rest.empty()) {
    const size_t colon = std::min(rest.find(':'), rest.size());
    if (colon > 0 && ::access((std::string(rest.substr(0, colon)) + "/" + name).c_str(), X_OK) == 0) return true;
    rest.remove_prefix(std::min(colon + 1, rest.size()));
  }
  return false;
}

}  // namespace

std::string CopySequence(std::string_view text) { return "\x1b]52;c;" + Base64(text) + "\x07"; }

std::string ClipboardCommand() {
  for (const ClipboardProgram& program : kPrograms) {
    const char* value = std::getenv(program.variable);
    if (value != nullptr && value[0] != '\0' && IsOnPath(program.name)) return program.command;
  }
  return "";
}

bool FeedCommand(const std::string& command, std::string_view text) {
  // A program that exits early must not end the chat.
  const auto before = std::signal(SIGPIPE, SIG_IGN);
  std::FILE* pipe = ::popen((command + " >/dev/null 2>&1").c_str(), "we");
  bool good = pipe != nullptr;
  if (good) good = std::fwrite(text.data(), 1, text.size(), pipe) == text.size();
  if (pipe != nullptr) good = ::pclose(pipe) == 0 && good;
  std::signal(SIGPIPE, before);
  return good;
}

std::string CopyAnswer(const std::vector<InputMessage>& items, Terminal& terminal, bool escapes) {
  const auto last =
      std::find_if(items.rbegin(), items.rend(), [](const auto& item) { return item.role == "assistant"; });
  if (last == items.rend()) return "There is no answer to copy yet.";
  const std::string command = ClipboardCommand();
  const bool copied = !command.empty() && FeedCommand(command, last->text);
  const bool sent = escapes && last->text.size() <= kMostTerminalCopyBytes;
  // The terminal may be on another machine than this program, so it is asked as well.
  if (sent) terminal.Write(CopySequence(last->text));
  const std::string size = std::to_string(last->text.size()) + " bytes";
  if (copied) return "Copied the last answer, " + size + ".";
  if (sent) return "Sent the last answer to the terminal's clipboard, " + size + ".";
  return (escapes ? "The last answer has " + size + ", too much for the terminal's clipboard"
                  : std::string("This terminal has no clipboard")) +
         "; /save FILE.md writes the conversation.";
}

}  // namespace ringside::client
