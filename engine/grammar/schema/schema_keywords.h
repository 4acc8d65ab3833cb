// The keywords of JSON Schema: which there are, what may stand in them, and reading them with errors that name them.
// Pure functions.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <string_view>

#include "base/status.h"
#include "engine/grammar/schema/schema_value.h"

namespace ringside {

/// An error at a place in a schema.
Status SchemaError(const std::string& path, const std::string& what);
Status SchemaError(const std::string& path, const Status& status);

/// kInvalidArgument, naming the keyword, if the schema has a keyword of JSON Schema that is not supported, or a
/// constraint next to a keyword that excludes others ($ref, anyOf, ...). Names that are no keywords are annotations.
/// `root`: it is the whole document.
Status CheckKeywords(const SchemaValue& schema, const std::string& path, bool root);

/// The types that values may have: those of `type`, or, where it is missing, the one type that other keywords are
/// about; of none, all. "integer" is not added to "number".
Result<std::set<std::string>> ReadTypes(const SchemaValue& schema, const std::string& path);

/// OpenAPI's `nullable`: null is valid, too. Not of schemas that list their values.
bool IsNullable(const SchemaValue& schema);

/// A count up to limits::kMaxGrammarRepeats; nothing if the keyword is missing.
Result<std::optional<uint32_t>> ReadCount(const SchemaValue& schema, const std::string& path, const char* keyword);

/// The regular expression of a `format`; nothing if it is not supported.
std::optional<std::string_view> PatternOfFormat(std::string_view format);
/// The formats that are supported, as a list for messages.
std::string SupportedFormats();

}  // namespace ringside
