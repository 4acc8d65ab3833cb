// Regular expressions of tokenizer.json, which are Oniguruma's (Ruby syntax), in the syntax of PCRE2 10.42 with
// PCRE2_UTF, PCRE2_UCP and PCRE2_MULTILINE. Pure; any thread.
#pragma once

#include <string>
#include <string_view>

#include "base/status.h"

namespace ringside {

/// What differs is rewritten: nested and intersected classes, the sets of \s \w \h and of named properties, "{n,m}+",
/// which is no possessive quantifier, \uHHHH, and (?m:), where a dot matches a line break. Everything else is copied;
/// PCRE2 refuses what it does not know. kInvalidArgument for brackets that do not match.
Result<std::string> PcreFromOniguruma(std::string_view pattern);

}  // namespace ringside
