// Arguments of a tool call as a grammar, for syntaxes that do not write them as a JSON object.
#pragma once

#include <string>
#include <string_view>

#include "base/status.h"
#include "engine/grammar/grammar_source.h"
#include "engine/grammar/schema/schema_value.h"
#include "engine/grammar/tools/tool_syntax.h"

namespace ringside {

/// Markup of a syntax as an expression: '#' runs are letters and digits, '%' is a number; `loose`: newlines are
/// optional.
ExpressionId AddMarkup(std::string_view pattern, bool loose, GrammarSource* source);

/// Arguments under `schema`, whose type is "object"; null: any arguments. Members are in the order in which the schema
/// declares them.
/// ERRORS: kInvalidArgument with `param` for a keyword that is not supported, or a name that the syntax cannot write.
Result<ExpressionId> AddArgumentsIn(const ToolSyntax& syntax, const SchemaValue* schema, const std::string& param,
                                    GrammarSource* source);

}  // namespace ringside
