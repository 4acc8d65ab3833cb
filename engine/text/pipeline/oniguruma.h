// Translates the regular expressions of tokenizer.json (Oniguruma, Ruby syntax) to PCRE2 10.42 with PCRE2_UTF,
// PCRE2_UCP and PCRE2_MULTILINE. Pure. THREAD: any.
#pragma once

#include <string>
#include <string_view>

#include "base/status.h"

namespace ringside {

/// Rewrites the differences: nested and intersected classes, the sets of \s \w \h and of named properties, "{n,m}+"
/// (not possessive in Oniguruma), \uHHHH, and (?m:), where a dot matches a line break. Copies all else; PCRE2 rejects
/// unknown syntax. ERRORS: kInvalidArgument for unbalanced brackets.
Result<std::string> PcreFromOniguruma(std::string_view pattern);

}  // namespace ringside
