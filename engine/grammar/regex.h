// Regular expressions as expressions of a grammar: the part of ECMA-262 (JSON Schema's `pattern`) that says which texts
// match and nothing more. Groups, classes, alternatives, quantifiers (a lazy one matches the same texts), `^` and `$`
// at the ends of the whole or of its alternatives, \d \w \s \D \W \S, \t \n \r \f \v \0 \xHH \uHHHH \u{H...}. Refused
// by name: look-around, back references, \b, \p, named and other special groups, flags.
//
// Readers differ in what is a digit, a word character or a space beyond ASCII. A text made here matches for all of
// them: \d, \w, \s, \D and \W are ASCII, \S is no space of any reader, a negated class leaves out what any of them
// would.
#pragma once

#include <functional>
#include <string_view>

#include "base/status.h"
#include "engine/grammar/grammar_source.h"

namespace ringside {

struct RegexOptions {
  /// How one character of a set is written in the text: by default, as it is.
  std::function<ExpressionId(const CodePointSet&)> characters;
  /// A text matches if any part of it does; false: all of it must.
  bool search = false;
};

/// kInvalidArgument with the reason and the byte; the status of the source's budget once
/// that is spent.
Result<ExpressionId> ReadRegex(std::string_view pattern, GrammarSource* source, const RegexOptions& options);

}  // namespace ringside
