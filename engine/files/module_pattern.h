// Patterns of module names in a quantization_config: a name, or after "re:" a regular expression that must match from
// the name's start on, as Python's re.match. Literals, `.`, classes, groups, alternatives, `^`, `$`, \d \w \s and
// quantifiers; anything else is refused. Hostile input: matching takes time in proportion to the name's and the
// pattern's length, which is limited. Immutable. THREAD: any.
#pragma once

#include <bitset>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace ringside {

class ModulePattern {
 public:
  /// ERRORS: kInvalidArgument, with the pattern, if it is malformed, too long or not supported.
  static Result<ModulePattern> Parse(std::string_view text);
  bool Matches(std::string_view name) const;

  struct Instruction {
    enum class Kind { kCharacters, kSplit, kStart, kEnd };
    Kind kind = Kind::kCharacters;
    std::bitset<256> characters = {};
    int32_t first = 1,
            second = 0;  // kSplit: distances to the next instructions; otherwise
                         // it is the following one
  };
  using Program = std::vector<Instruction>;

 private:
  void Add(size_t state, size_t at, size_t length, std::vector<bool>* states) const;

  std::string name_;  // without "re:"
  bool is_name_ = true;
  Program program_;
};

}  // namespace ringside
