// Callables of templates: filters, tests, methods of values, functions. One table each; looked up by name when the
// template is parsed, methods when it runs.
#pragma once

#include <array>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "session/chat/jinja/value.h"

namespace ringside::jinja {

class Evaluator;

struct Arguments {
  std::vector<Value> positional;
  std::vector<std::pair<std::string, Value>> keywords;
};

/// Arguments bound to parameters.
class BoundArguments {
 public:
  bool Has(size_t parameter) const { return parameter < values_.size() && values_[parameter].has_value(); }
  /// The argument, or `fallback` if it was not given.
  Value Get(size_t parameter, Value fallback = {}) const {
    return Has(parameter) ? *values_[parameter] : std::move(fallback);
  }
  /// As given: for a builtin that accepts any.
  const Arguments& given() const { return given_; }

 private:
  friend Result<BoundArguments> Bind(const Builtin& builtin, Arguments arguments);
  std::vector<std::optional<Value>> values_;
  Arguments given_;
};

struct Builtin {
  std::string_view name;
  /// Names of the parameters; "!" marks required ones. "*" alone: any arguments.
  std::array<std::string_view, 5> parameters = {};
  Result<Value> (*run)(Evaluator& evaluator, const Value& self, const BoundArguments& arguments) = nullptr;
};

/// ERRORS: kInvalidArgument for too many or too few arguments, or an unknown keyword.
Result<BoundArguments> Bind(const Builtin& builtin, Arguments arguments);

/// Null if there is no such filter.
const Builtin* FindFilter(std::string_view name);
const Builtin* FindTest(std::string_view name);
const Builtin* FindFunction(std::string_view name);  // range, namespace, ...
const Builtin* FindMethod(const Value& of, std::string_view name);

/// The tables, one per file.
std::span<const Builtin> TextFilters();
std::span<const Builtin> ListFilters();
std::span<const Builtin> Tests();
std::span<const Builtin> TextMethods();
std::span<const Builtin> DictMethods();
std::span<const Builtin> ListMethods();

}  // namespace ringside::jinja
