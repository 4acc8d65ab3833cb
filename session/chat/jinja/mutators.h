// Methods that change a list or a dict. Values are immutable and may be shared, so the name, the namespace's attribute
// or the item that a method is called on gets the changed value; another name for the same list keeps the old one.
#pragma once

#include "session/chat/jinja/builtins.h"

namespace ringside::jinja {

struct Mutator {
  Builtin signature;  // name and parameters
  /// Changes `self` and returns the call's value.
  Result<Value> (*run)(Evaluator& evaluator, Value* self, const BoundArguments& arguments) = nullptr;
};

/// Whether a list or a dict may have such a method.
bool MayMutate(std::string_view name);
/// Null if there is no such filter.
const Mutator* FindMutator(const Value& of, std::string_view name);

}  // namespace ringside::jinja
