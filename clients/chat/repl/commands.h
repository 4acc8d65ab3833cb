// The commands of the chat: their names, what they take, and the hint for what is none. Pure functions.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace ringside::client {

struct Command {
  enum class Name {
    kNone,     // an ordinary input: text
    kUnknown,  // hint: a sentence
    kHelp,
    kRegen,
    kContinue,
    kUndo,
    kRewind,
    kFork,
    kNew,
    kSystem,
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
  std::string text;  // the rest of the line without blanks around it; kNone: the whole input
  std::string hint;
};

/// A line that begins with a slash is a command, or kUnknown; two slashes stand for one and make an ordinary input. An
/// input of several lines is never a command.
Command ParseCommand(const std::string& input);
/// The commands that a line may be completed to, each with a blank behind it if it takes something.
std::vector<std::string> CompleteCommand(std::string_view line);
/// For /help.
std::string CommandHelp();

}  // namespace ringside::client
