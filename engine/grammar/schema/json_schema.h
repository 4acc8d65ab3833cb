// JSON Schema as a grammar of the documents that are valid under it, in the form of engine/grammar/schema/json_text.h
// and with members in the order in which the schema declares them. Strict: a keyword that is not supported is refused
// by name, never ignored; only annotations are passed over. What is supported: ws/PROTOCOL.md, "Structured output".
// Everything draws from the budget, and fails with its status and the keyword that it was spent on as `param`.
#pragma once

#include <string>
#include <string_view>

#include "base/status.h"
#include "engine/grammar/grammar_source.h"

namespace ringside {

class SchemaValue;

/// kInvalidArgument, with `param` and behind it the place in the schema ("text.format.schema.properties.x.multipleOf").
Result<GrammarSource> ReadJsonSchema(std::string_view schema, const std::string& param, GrammarBudget& budget);
/// The same of a schema that is parsed already, as a part of a grammar. After an error what was added is of no use.
Result<ExpressionId> AddJsonSchema(const SchemaValue& schema, const std::string& param, GrammarSource* source);
/// As AddJsonSchema, for `schema`, a part of `root`: references start at the root. `param` is the part's.
Result<ExpressionId> AddJsonSchemaOf(const SchemaValue& root, const SchemaValue& schema, const std::string& param,
                                     GrammarSource* source);
/// Any JSON object.
GrammarSource AnyJsonObject(GrammarBudget& budget);
ExpressionId AddAnyJsonObject(GrammarSource* source);

}  // namespace ringside
