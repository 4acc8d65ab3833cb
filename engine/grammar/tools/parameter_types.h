// Types of tool parameters, for syntaxes that write strings without quotes and other values as JSON. Plain values.
#pragma once

#include <string>
#include <string_view>
#include <unordered_set>

#include "engine/grammar/schema/schema_value.h"

namespace ringside {

/// True if a value of the schema, a part of `root`, is written as raw text: always, unless the schema excludes strings.
bool AcceptsRawText(const SchemaValue& root, const SchemaValue& schema);

/// The declared parameter types of a set of tools.
class ParameterTypes {
 public:
  ParameterTypes() = default;
  /// `tools`: one line of JSON per tool, see ToolCallRules. Tools with malformed JSON have no types. Takes time in
  /// proportion to their bytes.
  explicit ParameterTypes(std::string_view tools);

  /// True if values of the parameter are raw text; also for undeclared parameters.
  bool IsText(std::string_view tool, std::string_view parameter) const;

 private:
  std::unordered_set<std::string> json_;  // tool, newline, parameter; all others are text
};

}  // namespace ringside
