// An ini file in the format of Python's configparser: [sections] of "name = value" or "name: value", comments after #
// or ;. Hostile input: size and number of values are limited, and a duplicate name in a section is an error. Names are
// case-insensitive. Immutable. THREAD: any.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "base/status.h"

namespace ringside {

class IniFile {
 public:
  /// ERRORS: kCorruption, with `source` and the line, for a malformed file.
  static Result<IniFile> Parse(std::string_view text, const std::string& source);
  /// Parses a whole file of at most 1 MiB. ERRORS: also kNotFound or kIo if it cannot be read.
  static Result<IniFile> ReadFile(const std::string& path);

  bool HasSection(std::string_view section) const { return sections_.find(section) != sections_.end(); }
  /// nullopt if the section or the name does not exist. `name` in lower case.
  std::optional<std::string> Find(std::string_view section, std::string_view name) const;

 private:
  using Values = std::map<std::string, std::string, std::less<>>;
  std::map<std::string, Values, std::less<>> sections_;
};

}  // namespace ringside
