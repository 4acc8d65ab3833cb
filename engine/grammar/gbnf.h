// GBNF, the grammar notation of llama.cpp: rules `name ::= ...` of literals, classes, `.`, groups, alternatives,
// quantifiers (`* + ? {m} {m,} {m,n}`) and names of rules; comments from `#` on. `root` is what a whole text must
// match.
#pragma once

#include <string_view>

#include "base/status.h"
#include "engine/grammar/grammar_source.h"

namespace ringside {

/// kInvalidArgument with the reason and the line; the budget's status once that is spent.
Result<GrammarSource> ReadGbnf(std::string_view text, GrammarBudget& budget);

}  // namespace ringside
