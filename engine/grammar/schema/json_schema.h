// Converts a JSON Schema to a grammar of its valid documents, in the format of engine/grammar/schema/json_text.h, with
// members in the order of their declaration. Strict: an unsupported keyword is an error with its name, never ignored;
// only annotations are skipped. ws/PROTOCOL.md, "Structured output", lists the supported keywords. Charges the budget.
// ERRORS: the budget's status, with the keyword that exhausted it as `param`.
#pragma once

#include <string>
#include <string_view>

#include "base/status.h"
#include "engine/grammar/grammar_source.h"

namespace ringside {

class SchemaValue;

/// ERRORS: kInvalidArgument, with `param` followed by the path in the schema
/// ("text.format.schema.properties.x.multipleOf").
Result<GrammarSource> ReadJsonSchema(std::string_view schema, const std::string& param, GrammarBudget& budget);
/// As ReadJsonSchema, for a parsed schema, as a part of a grammar. After an error the added part is unusable.
Result<ExpressionId> AddJsonSchema(const SchemaValue& schema, const std::string& param, GrammarSource* source);
/// As AddJsonSchema, for `schema`, a part of `root`: references start at the root. `param` is the part's.
Result<ExpressionId> AddJsonSchemaOf(const SchemaValue& root, const SchemaValue& schema, const std::string& param,
                                     GrammarSource* source);
/// Any JSON object.
GrammarSource AnyJsonObject(GrammarBudget& budget);
ExpressionId AddAnyJsonObject(GrammarSource* source);

}  // namespace ringside
