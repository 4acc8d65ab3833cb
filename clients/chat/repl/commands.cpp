#include "clients/chat/repl/commands.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "base/cli/near_name.h"

namespace ringside::client {
namespace {

using Name = Command::Name;

struct CommandEntry {
  const char* spelling;
  Name name;
  const char* takes;
  const char* help;  // null: alias of the previous command
};

constexpr CommandEntry kCommands[] = {
    {"/help", Name::kHelp, "", "this list"},
    {"/?", Name::kHelp, "", nullptr},
    {"/regen", Name::kRegen, "", "regenerate the last answer"},
    {"/continue", Name::kContinue, "", "continue an incomplete answer, as one message"},
    {"/undo", Name::kUndo, "", "remove the last message and its answer"},
    {"/rewind", Name::kRewind, " N", "remove the last N messages and their answers"},
    {"/fork", Name::kFork, "", "continue in a copy; this conversation stays unchanged"},
    {"/new", Name::kNew, "", "start a new conversation"},
    {"/system", Name::kSystem, " TEXT", "start a new conversation with this system message"},
    {"/model", Name::kModel, " [NAME]", "list the server's models; start a new conversation with one (name or number)"},
    {"/preset", Name::kPreset, " [NAME]",
     "list or apply a preset: system message, settings, model; save NAME, delete NAME"},
    {"/read", Name::kRead, " [FILE]",
     "attach a text file to the next message; alone: list the attached files and images; -: drop them"},
    {"/image", Name::kImage, " [FILE]",
     "attach a PNG, JPEG or WebP image to the next message; alone: list the attached images; -: drop them"},
    {"/copy", Name::kCopy, "", "copy the last answer to the clipboard"},
    {"/set", Name::kSet, " NAME VALUE", "change a sampling setting; alone: show all; VALUE default: the server's"},
    {"/think", Name::kThink, " on|off|low|high|show|hide",
     "reasoning and its effort (also minimal, medium, xhigh, max, default), and whether it is shown"},
    {"/stats", Name::kStats, " [on|off]", "show the cost of the last answer; on: after every answer"},
    {"/sessions", Name::kSessions, "", "list the conversations on the server"},
    {"/resume", Name::kResume, " ID", "switch to a conversation (its id, or its number in /sessions)"},
    {"/title", Name::kTitle, " TEXT", "rename the conversation"},
    {"/edit", Name::kEdit, " [TEXT]", "write a message in your editor (VISUAL, EDITOR)"},
    {"/save", Name::kSave, " FILE.md", "write the conversation to a new Markdown file"},
    {"/export", Name::kExport, " FILE.json", "write the conversation to a new JSON file"},
    {"/history", Name::kHistory, " on|off", "turn the input history on or off"},
    {"/bye", Name::kBye, "", "leave (as Ctrl-D); the conversation stays on the server"},
    {"/exit", Name::kBye, "", nullptr},
    {"/quit", Name::kBye, "", nullptr},
};

constexpr std::string_view kKeysHelp =
    "\n"
    "  \"\"\"                   starts and ends a message of several lines (also: \\ at a line's end, Alt-Enter)\n"
    "  //...                 sends a message that starts with a slash\n"
    "  Ctrl-C                stops the answer and keeps the conversation\n"
    "  Ctrl-D                leaves\n"
    "  Tab                   completes commands, settings, conversations and file names\n"
    "  Up, Down, Ctrl-R      browses and searches the input history";

/// Commands of other chat programs, with their equivalents here.
constexpr std::pair<std::string_view, std::string_view> kElsewhere[] = {
    {"/show", "/set shows the settings, /system the system message, /stats the cost of the last answer."},
    {"/load", "/resume ID switches to a conversation; /model NAME starts one with another model of the server."},
    {"/clear", "/new starts a new conversation and keeps this one; Ctrl-L clears the screen."},
    {"/reset", "/new starts a new conversation and keeps this one."},
    {"/list", "/sessions lists the conversations."},
    {"/retry", "/regen regenerates the last answer."},
    {"/models", "/model lists the server's models."},
    {"/file", "/read FILE attaches a text file to the next message."},
};

std::string_view Trim(std::string_view text) {
  const size_t first = text.find_first_not_of(" \t");
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(" \t") - first + 1);
}

std::string HintFor(std::string_view word) {
  std::vector<std::string_view> spellings;
  for (const CommandEntry& entry : kCommands) spellings.push_back(entry.spelling);
  const std::string_view nearest = NearName(word, spellings);
  std::string hint = "Unknown command " + std::string(word) + ".";
  if (!nearest.empty()) hint += " Did you mean " + std::string(nearest) + "?";
  return hint + " /help lists the commands; start with // to send a message that starts with a slash.";
}

}  // namespace

Command ParseCommand(const std::string& input) {
  Command command;
  if (!input.starts_with('/') || input.find('\n') != std::string::npos) {
    command.text = input;
    return command;
  }
  if (input.starts_with("//")) {
    command.text = input.substr(1);
    return command;
  }
  const std::string_view line = Trim(input);
  const size_t blank = line.find_first_of(" \t");
  const std::string_view word = line.substr(0, blank);
  if (blank != std::string_view::npos) command.text = Trim(line.substr(blank));
  for (const CommandEntry& entry : kCommands) {
    if (word == entry.spelling) {
      command.name = entry.name;
      return command;
    }
  }
  command.name = Name::kUnknown;
  for (const auto& [other, hint] : kElsewhere) {
    if (word == other) command.hint = hint;
  }
  if (command.hint.empty()) command.hint = HintFor(word);
  return command;
}

std::vector<std::string> CompleteCommand(std::string_view line) {
  std::vector<std::string> found;
  if (!line.starts_with('/')) return found;
  for (const CommandEntry& entry : kCommands) {
    if (!std::string_view(entry.spelling).starts_with(line)) continue;
    found.push_back(std::string(entry.spelling) + (entry.takes[0] != '\0' ? " " : ""));
  }
  return found;
}

std::string CommandHelp() {
  std::string text;
  for (const CommandEntry& entry : kCommands) {
    if (entry.help == nullptr) continue;
    std::string line = std::string("  ") + entry.spelling + entry.takes;
    line.resize(std::max<size_t>(line.size() + 1, 24), ' ');
    text += line + entry.help + "\n";
  }
  return text + std::string(kKeysHelp.substr(1));
}

}  // namespace ringside::client
