// The chat's commands: names, arguments, and a hint for unknown ones. Pure functions.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace ringside::client {

struct Command {
  enum class Name {
    kNone,     // ordinary input: text
    kUnknown,  // unknown command; hint: a sentence
    kHelp,
    kRegen,
    kContinue,
    kUndo,
    kRewind,
    kFork,
    kNew,
    kSystem,
    kModel,
    kPreset,
    kRead,
    kImage,
    kCopy,
    kSet,
    kThink,
    kStats,
    kSessions,
    kResume,
    kTitle,
    kEdit,
    kSave,
    kExport,
    kHistory,
    kBye,
  };
  Name name = Name::kNone;
  std::string text;  // the rest of the line, trimmed; kNone: the whole input
  std::string hint;
};

/// A line that starts with a slash is a command, or kUnknown; a double slash escapes it. Multi-line input is never a
/// command.
Command ParseCommand(const std::string& input);
/// The commands that complete a line, each followed by a blank if it takes an argument.
std::vector<std::string> CompleteCommand(std::string_view line);
/// The text of /help.
std::string CommandHelp();

}  // namespace ringside::client
