#include "ws/config/config_help.h"

#include <algorithm>
#include <string_view>

#include "ws/config/config_options.h"

namespace ringside {
namespace {

constexpr size_t kColumns = 100, kHelpColumn = 30;

/// A group begins with this option and goes on to the next one's, in the order of the table.
struct Group {
  std::string_view first, heading;
};
constexpr Group kGroups[] = {
    {"model", "Model"},
    {"host", "Network"},
    {"store-path", "Storage"},
    {"session-idle-host", "Where caches go, and how long conversations are kept"},
    {"max-turns-per-owner", "Limits of one key"},
    {"slots", "Engine"},
    {"temperature", "Answers"},
    {"log-level", "Log"},
};

constexpr std::string_view kHead = R"(Ringside: a chat server that remembers

Usage: ringside-server --model PATH [OPTIONS]

Examples:
  ringside-server -m SmolLM2-135M-Instruct.Q4_1.gguf
      for this machine, at http://127.0.0.1:8080; conversations end with the server
  ringside-server -m ~/models/Qwen2.5-7B-Instruct --device cuda --store-path /var/lib/ringside
      a folder from Hugging Face on a GPU; conversations outlive the server
  ringside-server --config /etc/ringside.yaml --host 0.0.0.0 --api-key-file /etc/ringside.keys
      for others, behind keys; the settings are in a file

Defaults stand in [brackets].
)";

constexpr std::string_view kFoot = R"(
Every setting can also come from the environment (RINGSIDE_MEMORY_LEN for --memory-len; lists with commas) and from a
YAML file (--config; keys are the long flags: `memory-len: 1024`). The command line counts before the environment, the
environment before the file.

Exit codes: 0 stopped in order, 1 could not start or the engine failed, 73 the store folder is in use, 74 what is stored
is damaged, 75 the disk failed, 76 the GPU failed, 78 bad configuration, or the store is of another version.
)";

/// "  -m, --model PATH" and its help, broken at words behind it.
std::string Entry(const std::string& flags, std::string_view help) {
  std::string text = "  " + flags;
  size_t column = text.size();
  if (column + 2 > kHelpColumn) {
    text += '\n';
    column = 0;
  }
  text.append(kHelpColumn - column, ' ');
  column = kHelpColumn;
  while (!help.empty()) {
    const size_t end = std::min(help.find(' '), help.size());
    if (column > kHelpColumn && column + 1 + end > kColumns) {
      text += '\n' + std::string(kHelpColumn, ' ');
      column = kHelpColumn;
    } else if (column > kHelpColumn) {
      text += ' ';
      ++column;
    }
    text += help.substr(0, end);
    column += end;
    help.remove_prefix(std::min(end + 1, help.size()));
  }
  return text + '\n';
}

std::string Flags(const ConfigOption& option) {
  std::string flags;
  const auto add = [&](const std::string& name) {
    flags += (flags.empty() ? "" : ", ") + std::string(name.size() == 1 ? "-" : "--") + name;
  };
  // Short flags stand first, as people read them.
  const std::vector<std::string> all = option.Spellings();
  for (const std::string& name : all) {
    if (name.size() == 1) add(name);
  }
  for (const std::string& name : all) {
    if (name.size() > 1) add(name);
  }
  return flags + (option.placeholder.empty() ? "" : " " + option.placeholder);
}

}  // namespace

std::string HelpText() {
  std::string text(kHead);
  for (const ConfigOption& option : ConfigOptions()) {
    const auto group = std::find_if(std::begin(kGroups), std::end(kGroups),
                                    [&](const Group& known) { return known.first == option.name; });
    if (group != std::end(kGroups)) text += "\n" + std::string(group->heading) + ":\n";
    text += Entry(Flags(option), option.help);
  }
  text += "\nMore:\n" + Entry("--config PATH", "YAML file with settings") + Entry("-h, --help", "this text") +
          Entry("--version", "the version");
  return text + std::string(kFoot);
}

}  // namespace ringside
