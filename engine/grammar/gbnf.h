// GBNF, the grammar notation of llama.cpp: rules `name ::= ...` of literals, classes, `.`, groups, alternatives,
// quantifiers (`* + ? {m} {m,} {m,n}`) and rule names; comments from `#` on. `root` must match the whole text.
#pragma once

#include <string_view>

#include "base/status.h"
#include "engine/grammar/grammar_source.h"

namespace ringside {

/// ERRORS: kInvalidArgument with the reason and the line; the budget's status once it is exhausted.
Result<GrammarSource> ReadGbnf(std::string_view text, GrammarBudget& budget);

}  // namespace ringside
