// Whether two schemas can hold of one value: what oneOf needs to know. Pure functions.
#pragma once

#include <string_view>

#include "engine/grammar/schema/schema_value.h"

namespace ringside {

/// The subschema that a `$ref` of "#" or "#/..." names; nullptr if there is none, or it is not of this document.
const SchemaValue* ResolveReference(const SchemaValue& root, std::string_view reference);

/// True if it is certain that no value is valid under both: other types, other constants, or objects that both must
/// have a member of which that is true. False where nobody can tell that easily.
bool AreDisjoint(const SchemaValue& root, const SchemaValue& a, const SchemaValue& b);

}  // namespace ringside
