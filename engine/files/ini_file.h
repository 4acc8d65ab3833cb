// An ini file as Python's configparser writes it: [sections] of "name = value" or "name: value", comments behind # or
// ;. Read as hostile input: size and number of values are limited, and a name given twice in its section is an error.
// Names are compared without regard to case. Immutable; any thread.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "base/status.h"

namespace ringside {

class IniFile {
 public:
  /// kCorruption, naming `source` and the line, for what is no ini file.
  static Result<IniFile> Parse(std::string_view text, const std::string& source);
  /// Parse of a whole file of at most 1 MiB; kNotFound or kIo if it cannot be read.
  static Result<IniFile> ReadFile(const std::string& path);

  bool HasSection(std::string_view section) const { return sections_.find(section) != sections_.end(); }
  /// Nothing where the section or the name is not there. `name` in lower case.
  std::optional<std::string> Find(std::string_view section, std::string_view name) const;

 private:
  using Values = std::map<std::string, std::string, std::less<>>;
  std::map<std::string, Values, std::less<>> sections_;
};

}  // namespace ringside
