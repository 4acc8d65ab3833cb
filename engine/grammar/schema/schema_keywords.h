// JSON Schema's keywords: the supported ones, their allowed values, and parsing with errors that name them. Pure
// functions.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <string_view>

#include "base/status.h"
#include "engine/grammar/schema/schema_value.h"

namespace ringside {

/// An error at a path in a schema.
Status SchemaError(const std::string& path, const std::string& what);
Status SchemaError(const std::string& path, const Status& status);

/// ERRORS: kInvalidArgument, with the keyword, if the schema has an unsupported JSON Schema keyword, or a constraint
/// next to an exclusive keyword ($ref, anyOf, ...). Unknown names are annotations. `root`: the whole document.
Status CheckKeywords(const SchemaValue& schema, const std::string& path, bool root);

/// The types of valid values: those of `type` or, if missing, the type that the other keywords imply; all types if
/// there are no keywords. "integer" is not added to "number".
Result<std::set<std::string>> ReadTypes(const SchemaValue& schema, const std::string& path);

/// OpenAPI's `nullable`: null is valid, too. False for schemas that list their values.
bool IsNullable(const SchemaValue& schema);

/// A count up to limits::kMaxGrammarRepeats; nullopt if the keyword is missing.
Result<std::optional<uint32_t>> ReadCount(const SchemaValue& schema, const std::string& path, const char* keyword);

/// The regular expression of a `format`; nullopt if it is not supported.
std::optional<std::string_view> PatternOfFormat(std::string_view format);
/// The supported formats, as a list for messages.
std::string SupportedFormats();

}  // namespace ringside
