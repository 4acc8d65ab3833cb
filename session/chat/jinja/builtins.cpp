// Look-up, argument binding, and the functions available to every template.
#include "session/chat/jinja/builtins.h"

#include <algorithm>
#include <memory>

#include "session/chat/jinja/evaluator.h"
#include "session/chat/jinja/template.h"

namespace ringside::jinja {
namespace {

const Builtin* Find(std::span<const Builtin> table, std::string_view name) {
  const auto found = std::ranges::find(table, name, &Builtin::name);
  return found == table.end() ? nullptr : &*found;
}

Result<Value> Range(Evaluator& evaluator, const Value&, const BoundArguments& arguments) {
  constexpr int64_t kMostItems = 100000;  // as in jinja2's sandbox
  for (size_t i = 0; i < 3; ++i) {
    const Value value = arguments.Get(i, int64_t{1});
    if (!value.IsInteger() && !value.IsBool()) return InvalidArgument("range() takes integers");
  }
  const bool one = !arguments.Has(1);
  const int64_t begin = one ? 0 : arguments.Get(0).Integer(), end = arguments.Get(one ? 0 : 1).Integer();
  const int64_t step = arguments.Get(2, int64_t{1}).Integer();
  if (step == 0) return InvalidArgument("range() does not accept a step of zero");
  std::vector<Value> items;
  for (int64_t i = begin; step > 0 ? i < end : i > end;) {
    if (static_cast<int64_t>(items.size()) == kMostItems) return InvalidArgument("range() is limited to 100000 items");
    items.emplace_back(i);
    if (__builtin_add_overflow(i, step, &i)) break;
  }
  RETURN_IF_ERROR(evaluator.Spend(static_cast<int64_t>(items.size())));
  return MakeList(std::move(items));
}

/// Builds the mapping for namespace() and dict().
Result<Value> MappingOf(Evaluator& evaluator, const BoundArguments& arguments) {
  const Arguments& given = arguments.given();
  std::vector<std::pair<Value, Value>> entries;
  if (given.positional.size() > 1) return InvalidArgument("dict() accepts at most one dict");
  if (!given.positional.empty()) {
    if (const MappingValue* mapping = given.positional[0].AsMapping()) {
      entries = mapping->entries;
    } else {
      ASSIGN_OR_RETURN(const Value pairs, evaluator.Iterate(given.positional[0]));
      for (const Value& pair : pairs.AsSequence()->items) {
        ASSIGN_OR_RETURN(const Value parts, evaluator.Iterate(pair));
        const std::vector<Value>& two = parts.AsSequence()->items;
        if (two.size() != 2) return InvalidArgument("dict() requires key-value pairs");
        entries.emplace_back(two[0], two[1]);
      }
    }
  }
  for (const auto& [name, value] : given.keywords) entries.emplace_back(Value(name), value);
  RETURN_IF_ERROR(evaluator.Spend(static_cast<int64_t>(entries.size() * entries.size()) / 8));
  return MakeMapping(std::move(entries));
}

Result<Value> Dict(Evaluator& evaluator, const Value&, const BoundArguments& arguments) {
  return MappingOf(evaluator, arguments);
}

Result<Value> NewNamespace(Evaluator& evaluator, const Value&, const BoundArguments& arguments) {
  ASSIGN_OR_RETURN(const Value mapping, MappingOf(evaluator, arguments));
  auto space = std::make_unique<NamespaceObject>();
  for (const auto& [name, value] : mapping.AsMapping()->entries) {
    if (name.IsText()) space->attributes.emplace_back(name.Text(), value);
  }
  return Value(evaluator.Own(std::move(space)));
}

Result<Value> RaiseException(Evaluator&, const Value&, const BoundArguments& arguments) {
  ASSIGN_OR_RETURN(const std::string text, ToText(arguments.Get(0)));
  return InvalidArgument("the template raised an error: " + text, "", kRaisedByTemplate);
}

Result<Value> StrftimeNow(Evaluator& evaluator, const Value&, const BoundArguments& arguments) {
  constexpr size_t kMostFormat = 256, kMostText = 4096;
  if (!arguments.Get(0).IsText() || arguments.Get(0).Text().size() > kMostFormat) {
    return InvalidArgument("strftime_now() accepts a format of at most 256 bytes");
  }
  char text[kMostText];
  const std::tm now = evaluator.now();
  const size_t size = std::strftime(text, sizeof(text), arguments.Get(0).Text().c_str(), &now);
  return Value(std::string(text, size));
}

constexpr std::array kFunctions = {
    Builtin{"range", {"!start", "stop", "step"}, Range}, Builtin{"dict", {"*"}, Dict},
    Builtin{"namespace", {"*"}, NewNamespace},           Builtin{"raise_exception", {"!message"}, RaiseException},
    Builtin{"strftime_now", {"!format"}, StrftimeNow},
};

}  // namespace

Result<BoundArguments> Bind(const Builtin& builtin, Arguments arguments) {
  BoundArguments bound;
  const auto named = [&](const std::string& what) {
    return InvalidArgument("'" + std::string(builtin.name) + "' " + what);
  };
  if (builtin.parameters[0] == "*") {
    bound.given_ = std::move(arguments);
    return bound;
  }
  const auto count =
      static_cast<size_t>(std::ranges::find(builtin.parameters, std::string_view()) - builtin.parameters.begin());
  if (arguments.positional.size() > count) return named("takes no so many arguments");
  bound.values_.resize(count);
  for (size_t i = 0; i < arguments.positional.size(); ++i) bound.values_[i] = std::move(arguments.positional[i]);
  const auto name_of = [&](size_t i) {
    return builtin.parameters[i].substr(builtin.parameters[i].starts_with('!') ? 1 : 0);
  };
  for (auto& [name, value] : arguments.keywords) {
    size_t at = 0;
    while (at < count && name_of(at) != name) ++at;
    if (at == count || bound.values_[at]) return named("takes no argument '" + name + "' there");
    bound.values_[at] = std::move(value);
  }
  for (size_t i = 0; i < count; ++i) {
    if (builtin.parameters[i].starts_with('!') && !bound.values_[i]) {
      return named("needs an argument '" + std::string(name_of(i)) + "'");
    }
  }
  return bound;
}

const Builtin* FindFilter(std::string_view name) {
  const Builtin* found = Find(TextFilters(), name);
  return found != nullptr ? found : Find(ListFilters(), name);
}
const Builtin* FindTest(std::string_view name) { return Find(Tests(), name); }
const Builtin* FindFunction(std::string_view name) { return Find(kFunctions, name); }
const Builtin* FindMethod(const Value& of, std::string_view name) {
  if (of.IsText()) return Find(TextMethods(), name);
  if (of.AsMapping() != nullptr) return Find(DictMethods(), name);
  return of.AsSequence() != nullptr && of.AsSequence()->indexed() ? Find(ListMethods(), name) : nullptr;
}

}  // namespace ringside::jinja
