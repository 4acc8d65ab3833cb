#include "clients/chat/repl/completion.h"

#include <algorithm>
#include <cstdlib>
#include <filesystem>

#include "clients/chat/repl/commands.h"
#include "clients/chat/repl/presets.h"
#include "clients/chat/settings.h"

namespace ringside::client {
namespace {

constexpr size_t kMostFiles = 1000;

using Words = std::vector<std::string>;

Words StartingWith(std::string_view begun, const Words& all) {
  Words found;
  for (const std::string& word : all) {
    if (word.starts_with(begun)) found.push_back(word);
  }
  return found;
}

/// The files and folders that complete a path, folders with a trailing slash; hidden ones only if the path starts with
/// a dot.
Words CompletePath(std::string_view begun) {
  const size_t slash = begun.rfind('/');
  const std::string_view folder = slash == std::string_view::npos ? std::string_view() : begun.substr(0, slash + 1);
  const std::string_view name = begun.substr(folder.size());
  std::filesystem::path real = folder.empty() ? "." : folder;
  const char* home = std::getenv("HOME");
  if (folder.starts_with("~/") && home != nullptr) real = std::filesystem::path(home) / folder.substr(2);
  Words found;
  std::error_code error;
  for (std::filesystem::directory_iterator entry(real, error), end; !error && entry != end; entry.increment(error)) {
    const std::string file = entry->path().filename().string();
    if (!file.starts_with(name) || (file[0] == '.' && name.empty())) continue;
    std::error_code ignored;
    found.push_back(std::string(folder) + file + (entry->is_directory(ignored) ? "/" : ""));
    if (found.size() == kMostFiles) break;
  }
  std::sort(found.begin(), found.end());
  return found;
}

/// As CompletePath, after an opening quote, too: a file is closed by the same one.
Words CompleteQuotedPath(std::string_view begun) {
  if (!begun.starts_with('"') && !begun.starts_with('\'')) return CompletePath(begun);
  const char quote = begun.front();
  Words found = CompletePath(begun.substr(1));
  for (std::string& path : found) path = quote + path + (path.ends_with('/') ? std::string() : std::string(1, quote));
  return found;
}

Words CompleteSetting(std::string_view begun) {
  const size_t blank = begun.find(' ');
  if (blank == std::string_view::npos) {
    Words names = StartingWith(begun, Settings::Names());
    for (std::string& name : names) name += ' ';
    return names;
  }
  Words values = StartingWith(begun.substr(blank + 1), {"default"});
  for (std::string& value : values) value.insert(0, begun.substr(0, blank + 1));
  return values;
}

Words CompletePreset(std::string_view begun) {
  Words names = {"save ", "delete "};
  for (const auto& [name, preset] : LoadPresets()) names.push_back(name);
  return StartingWith(begun, names);
}

Words CompleteArgument(Command::Name command, std::string_view begun, const Words& conversations) {
  switch (command) {
    case Command::Name::kSet:
      return CompleteSetting(begun);
    case Command::Name::kSave:
    case Command::Name::kExport:
      return CompletePath(begun);
    case Command::Name::kRead:
    case Command::Name::kImage:
      return CompleteQuotedPath(begun);
    case Command::Name::kPreset:
      return CompletePreset(begun);
    case Command::Name::kStats:
    case Command::Name::kHistory:
      return StartingWith(begun, {"on", "off"});
    case Command::Name::kThink:
      return StartingWith(begun, {"on", "off", "low", "medium", "high", "default", "show", "hide"});
    case Command::Name::kResume: {
      if (begun.starts_with("c")) return StartingWith(begun, conversations);
      Words numbers;
      for (size_t i = 1; i <= conversations.size(); ++i) numbers.push_back(std::to_string(i));
      return StartingWith(begun, numbers);
    }
    default:
      return {};
  }
}

}  // namespace

Words CompleteLine(std::string_view line, const Words& conversations) {
  const size_t blank = line.find(' ');
  if (blank == std::string_view::npos) return CompleteCommand(line);
  const Command command = ParseCommand(std::string(line.substr(0, blank)));
  const std::string_view begun = line.substr(blank + 1);
  Words lines = CompleteArgument(command.name, begun, conversations);
  for (std::string& argument : lines) argument.insert(0, line.substr(0, blank + 1));
  return lines;
}

}  // namespace ringside::client
