#include "ws/config/config_help.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string_view>
#include <vector>

#include "base/json/json_tree.h"
#include "ws/access/keys_command.h"
#include "ws/config/config_options.h"
#include "ws/config/inspect_command.h"
#include "ws/config/migrate_command.h"

namespace ringside {
namespace {

constexpr size_t kColumns = 100, kHelpColumn = 30;

/// A group starts with this option and extends to the next group's first, in table order.
struct Group {
  std::string_view first, heading;
};
constexpr Group kGroups[] = {
    {"profile", "Profile"},
    {"model", "Model"},
    {"host", "Network"},
    {"store-path", "Storage"},
    {"session-idle-host", "Where caches go, and how long conversations are kept"},
    {"max-turns-per-owner", "Limits of one key"},
    {"slots", "Engine"},
    {"temperature", "Answers"},
    {"log-level", "Log"},
};

constexpr std::string_view kSummary = "a chat server that remembers";
constexpr std::string_view kUsage = "--model PATH [OPTIONS]";

struct Example {
  std::string_view command, what;
};
constexpr Example kExamples[] = {
    {"ringside-server -m SmolLM2-135M-Instruct.Q4_1.gguf",
     "for this machine, at http://127.0.0.1:8080; conversations end with the server"},
    {"ringside-server -m ~/models/Qwen2.5-7B-Instruct --device cuda --store-path /var/lib/ringside",
     "a folder from Hugging Face on a GPU; conversations outlive the server"},
    {"ringside-server --config /etc/ringside.yaml --host 0.0.0.0 --api-key-file /etc/ringside.keys",
     "for others, behind keys; the settings are in a file"},
};

constexpr std::string_view kSources = R"(
Every setting can also come from the environment (RINGSIDE_MEMORY_LEN for --memory-len; lists with commas) and from a
YAML file (--config; keys are the long flags: `memory-len: 1024`). The command line counts before the environment, the
environment before the file.
)";

struct ExitCode {
  int code;
  std::string_view meaning;
};
constexpr ExitCode kExitCodes[] = {
    {0, "stopped in order"},
    {1, "could not start or the engine failed"},
    {73, "the store folder, or the name in a shared store, is in use"},
    {74, "what is stored is damaged"},
    {75, "the disk failed, or another server has taken over the conversations"},
    {76, "the GPU, or another process that shares the model, failed"},
    {78, "bad configuration, or the store is of another version"},
};

/// Options outside the table: only the command line can give them.
struct MoreOption {
  std::vector<std::string_view> flags;
  std::string_view placeholder, help;
};
const MoreOption kMoreOptions[] = {
    {{"--config"}, "PATH", "YAML file with settings"},
    {{"--explain-kernels"},
     "LAYER",
     "print the CUDA kernels of a linear layer, ROWS,K,N,TYPE[,...] as in 32,4096,14336+14336,Q4_K,gate-up,9.0; needs "
     "no "
     "GPU"},
    {{"-h", "--help"}, "", "this text"},
    {{"--version"}, "", "the version"},
};

/// "  -m, --model PATH" and its help, word-wrapped in the column after it.
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

/// As on the command line, short flags first.
std::vector<std::string> Flags(const ConfigOption& option) {
  std::vector<std::string> flags;
  for (const std::string& name : option.Spellings()) {
    name.size() == 1 ? void(flags.insert(flags.begin(), "-" + name)) : flags.push_back("--" + name);
  }
  return flags;
}

template <class Flags>
std::string FlagsAndValue(const Flags& flags, std::string_view placeholder) {
  std::string text;
  for (const auto& flag : flags) text += (text.empty() ? "" : ", ") + std::string(flag);
  return text + (placeholder.empty() ? "" : " ") + std::string(placeholder);
}

/// "" if the option belongs to the previous option's group.
std::string_view HeadingAt(const ConfigOption& option) {
  const auto group = std::find_if(std::begin(kGroups), std::end(kGroups),
                                  [&](const Group& known) { return known.first == option.name; });
  return group == std::end(kGroups) ? "" : group->heading;
}

}  // namespace

std::string HelpText() {
  std::string text = fmt::format("Ringside: {}\n\nUsage: ringside-server {}\n\nExamples:\n", kSummary, kUsage);
  for (const Example& example : kExamples) text += fmt::format("  {}\n      {}\n", example.command, example.what);
  text += "\nDefaults stand in [brackets].\n";
  for (const ConfigOption& option : ConfigOptions()) {
    if (const std::string_view heading = HeadingAt(option); !heading.empty()) text += fmt::format("\n{}:\n", heading);
    text += Entry(FlagsAndValue(Flags(option), option.placeholder), option.help);
  }
  text += "\nMore:\n";
  for (const MoreOption& more : kMoreOptions) text += Entry(FlagsAndValue(more.flags, more.placeholder), more.help);
  text += std::string(kSources) + "\nExit codes:\n";
  for (const ExitCode& exit : kExitCodes) text += fmt::format("  {:<4}{}\n", exit.code, exit.meaning);
  return text;
}

std::string DescribeCommandLine() {
  using nlohmann::json;
  json options = json::array();
  std::string_view group;
  for (const ConfigOption& option : ConfigOptions()) {
    if (const std::string_view heading = HeadingAt(option); !heading.empty()) group = heading;
    options.push_back(
        {{"flags", Flags(option)}, {"value", option.placeholder}, {"help", option.help}, {"group", group}});
  }
  for (const MoreOption& more : kMoreOptions) {
    options.push_back({{"flags", more.flags}, {"value", more.placeholder}, {"help", more.help}, {"group", "More"}});
  }
  json out = {{"name", "ringside-server"},   {"summary", kSummary},
              {"version", RINGSIDE_VERSION}, {"usage", kUsage},
              {"sources", kSources},         {"options", options},
              {"arguments", json::array()},  {"examples", json::array()},
              {"exit_codes", json::array()}, {"commands", json::array()}};
  for (const Example& example : kExamples) out["examples"].push_back({example.command, example.what});
  for (const ExitCode& exit : kExitCodes) out["exit_codes"].push_back({exit.code, exit.meaning});
  for (const std::string& command : {DescribeKeysCommand(), DescribeInspectCommand(), DescribeMigrateCommand()}) {
    out["commands"].push_back(ParseJsonTree(command));
  }
  return out.dump(1) + "\n";
}

}  // namespace ringside
