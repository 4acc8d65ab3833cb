// JSON texts as expressions of a grammar: strings, numbers, any value. Compact: no white space except one optional
// blank after a comma or a colon. Pure functions.
#pragma once

#include <string>
#include <string_view>

#include "engine/grammar/grammar_source.h"
#include "engine/grammar/schema/schema_value.h"

namespace ringside {

/// A string in canonical JSON: unescaped except where required, with the short escape if there is one.
std::string JsonString(std::string_view text);
/// A value in canonical form, without blanks.
std::string JsonOf(const SchemaValue& value);

/// One character inside a string, in canonical form.
ExpressionId JsonCharacter(const CodePointSet& characters, GrammarSource* source);
/// Any character in any JSON notation.
ExpressionId AnyJsonCharacter(GrammarSource* source);

/// The rules common to most JSON grammars, created once per source.
class JsonRules {
 public:
  explicit JsonRules(GrammarSource* source);

  ExpressionId AnyValue() { return source_.Rule(value_); }
  ExpressionId AnyObject() { return source_.Rule(object_); }
  ExpressionId AnyString() { return source_.Rule(string_); }
  ExpressionId Comma() { return source_.Rule(comma_); }
  ExpressionId Colon() { return source_.Rule(colon_); }
  ExpressionId Number() { return source_.Rule(number_); }
  ExpressionId Integer() { return source_.Rule(integer_); }

 private:
  RuleId Define(const char* name, ExpressionId body);

  GrammarSource& source_;
  RuleId string_ = 0, number_ = 0, integer_ = 0, comma_ = 0, colon_ = 0, object_ = 0, value_ = 0;
};

}  // namespace ringside
