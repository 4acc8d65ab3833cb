// Lark grammars, which clients send for the input of custom tools, as regular expressions. Pure; any thread.
#pragma once

#include <string>
#include <string_view>

#include "base/status.h"

namespace ringside {

inline constexpr size_t kMaxLarkRegexBytes = 32 << 10;  // of the expression, every rule written out where it is used
inline constexpr size_t kMaxLarkRules = 256;

/// The expression that matches the texts of rule `start`, without ^ and $. Rules, terminals, strings, ranges, regular
/// expressions without flags, groups, ?, *, +, ~n, [optional] and terminals of `common`.
/// ERRORS: kInvalidArgument for a rule that uses itself, %ignore, templates and anything else, and for an expression
/// that would be too long.
Result<std::string> LarkToRegex(std::string_view grammar);

}  // namespace ringside
