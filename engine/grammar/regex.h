// Regular expressions as expressions of a grammar: the part of ECMA-262 (JSON Schema's `pattern`) that only determines
// which texts match. Groups, classes, alternatives, quantifiers (a lazy one matches the same texts), `^` and `$` at the
// ends of the whole or of its alternatives, \d \w \s \D \W \S, \t \n \r \f \v \0 \xHH \uHHHH \u{H...}. Rejected by
// name: look-around, back references, \b, \p, named and other special groups, flags.
//
// Regex engines disagree about digits, word characters and spaces beyond ASCII. The grammar is conservative, so that an
// answer matches in every engine: \d, \w, \s, \D and \W are ASCII, \S excludes the spaces of every engine, and a
// negated class excludes what any engine would.
#pragma once

#include <functional>
#include <string_view>

#include "base/status.h"
#include "engine/grammar/grammar_source.h"

namespace ringside {

struct RegexOptions {
  /// Encoding of one character of a set in the text; default: itself.
  std::function<ExpressionId(const CodePointSet&)> characters;
  /// true: some part of a text must match; false: the whole text.
  bool search = false;
};

/// ERRORS: kInvalidArgument with the reason and the byte offset; the status of the source's budget once it is
/// exhausted.
Result<ExpressionId> ReadRegex(std::string_view pattern, GrammarSource* source, const RegexOptions& options);

}  // namespace ringside
