// Translates Lark grammars, which clients send for the input of custom tools, to regular expressions. Pure. THREAD:
// any.
#pragma once

#include <string>
#include <string_view>

#include "base/status.h"

namespace ringside {

inline constexpr size_t kMaxLarkRegexBytes = 32 << 10;  // of the expression, every rule expanded at each use
inline constexpr size_t kMaxLarkRules = 256;

/// The expression that matches rule `start`, without ^ and $. Supports rules, terminals, strings, ranges, regular
/// expressions without flags, groups, ?, *, +, ~n, [optional] and terminals of `common`. ERRORS: kInvalidArgument for
/// recursion, %ignore, templates and other syntax, and for an expression that would be too long.
Result<std::string> LarkToRegex(std::string_view grammar);

}  // namespace ringside
