// Types of tool parameters, for syntaxes that write a string without quotes and any other value as JSON. Plain values.
#pragma once

#include <string>
#include <string_view>
#include <unordered_set>

#include "engine/grammar/schema/schema_value.h"

namespace ringside {

/// True if a value of the schema, a part of `root`, is written as raw text: always, unless the schema excludes strings.
bool TakesText(const SchemaValue& root, const SchemaValue& schema);

/// The types of the parameters that some tools declare.
class ParameterTypes {
 public:
  ParameterTypes() = default;
  /// `tools`: a line of JSON each, see ToolCallRules. Tools whose JSON cannot be parsed have no types. Takes time in
  /// proportion to their bytes.
  explicit ParameterTypes(std::string_view tools);

  /// True if values of the parameter are raw text, also where no tool declares it.
  bool IsText(std::string_view tool, std::string_view parameter) const;

 private:
  std::unordered_set<std::string> json_;  // tool, newline, parameter; all others are text
};

}  // namespace ringside
