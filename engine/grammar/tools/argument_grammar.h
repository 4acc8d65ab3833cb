// The grammar of a tool call's arguments, for syntaxes that do not use a JSON object.
#pragma once

#include <string>
#include <string_view>

#include "base/status.h"
#include "engine/grammar/grammar_source.h"
#include "engine/grammar/schema/schema_value.h"
#include "engine/grammar/tools/tool_syntax.h"

namespace ringside {

/// A syntax's markup as an expression: '#' matches letters and digits, '%' a number; `loose`: newlines are optional.
ExpressionId AddMarkup(std::string_view pattern, bool loose, GrammarSource* source);

/// Arguments under `schema`, whose type is "object"; null: any arguments. Members are in the order of their
/// declaration. ERRORS: kInvalidArgument with `param` for an unsupported keyword, or a name that the syntax cannot
/// express.
Result<ExpressionId> AddArgumentsIn(const ToolSyntax& syntax, const SchemaValue* schema, const std::string& param,
                                    GrammarSource* source);

}  // namespace ringside
