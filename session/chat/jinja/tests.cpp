// Tests: the words after "is".
#include <array>

#include "engine/text/unicode_case.h"
#include "session/chat/jinja/builtins.h"
#include "session/chat/jinja/evaluator.h"
#include "session/chat/jinja/text.h"

namespace ringside::jinja {
namespace {

template <class Holds>
constexpr auto Test(Holds) {
  return [](Evaluator&, const Value& self, const BoundArguments&) -> Result<Value> { return Value(Holds()(self)); };
}

bool IsIterable(const Value& v) {
  return v.IsUndefined() || v.IsText() || v.AsSequence() != nullptr || v.AsMapping() != nullptr;
}
bool IsSequence(const Value& v) {
  return v.IsText() || v.AsMapping() != nullptr || (v.AsSequence() != nullptr && v.AsSequence()->indexed());
}

/// By comparison operator.
template <char kSign, bool kOrEqual>
Result<Value> Compared(Evaluator& evaluator, const Value& self, const BoundArguments& arguments) {
  const Value other = arguments.Get(0);
  RETURN_IF_ERROR(evaluator.Spend(std::min(self.weight(), other.weight())));
  if (kSign == '=') return Value(Equal(self, other));
  if (kSign == '!') return Value(!Equal(self, other));
  ASSIGN_OR_RETURN(const bool less, kSign == '<' ? Less(self, other) : Less(other, self));
  return Value(less || (kOrEqual && Equal(self, other)));
}

Result<Value> Same(Evaluator& evaluator, const Value& self, const BoundArguments& arguments) {
  const Value other = arguments.Get(0);
  RETURN_IF_ERROR(evaluator.Spend(std::min(self.weight(), other.weight())));
  return Value(std::string_view(self.TypeName()) == other.TypeName() && Equal(self, other));
}

Result<Value> In(Evaluator& evaluator, const Value& self, const BoundArguments& arguments) {
  ASSIGN_OR_RETURN(const bool holds, evaluator.Contains(arguments.Get(0), self));
  return Value(holds);
}

Result<Value> DivisibleBy(Evaluator& evaluator, const Value& self, const BoundArguments& arguments) {
  ASSIGN_OR_RETURN(const Value rest, Compute(evaluator, "%", self, arguments.Get(0)));
  return Value(Equal(rest, Value(int64_t{0})));
}

template <int kRest>
Result<Value> OddEven(Evaluator& evaluator, const Value& self, const BoundArguments&) {
  ASSIGN_OR_RETURN(const Value rest, Compute(evaluator, "%", self, Value(int64_t{2})));
  return Value(Equal(rest, Value(int64_t{kRest})));
}

template <bool kUpper>
Result<Value> Cased(Evaluator& evaluator, const Value& self, const BoundArguments&) {
  RETURN_IF_ERROR(evaluator.Spend(self.weight()));
  ASSIGN_OR_RETURN(const std::string text, ToText(self));
  return Value(IsAll(text, kUpper ? "isupper" : "islower"));
}

bool IsCallable(const Value& v) {
  return v.AsBuiltin() != nullptr || dynamic_cast<const MacroObject*>(v.AsObject()) != nullptr;
}

Result<Value> IsFilter(Evaluator&, const Value& self, const BoundArguments&) {
  return Value(self.IsText() && FindFilter(self.Text()) != nullptr);
}
Result<Value> IsTest(Evaluator&, const Value& self, const BoundArguments&) {
  return Value(self.IsText() && FindTest(self.Text()) != nullptr);
}

constexpr std::array kTests = {
    Builtin{"defined", {}, Test([](const Value& v) { return !v.IsUndefined(); })},
    Builtin{"undefined", {}, Test([](const Value& v) { return v.IsUndefined(); })},
    Builtin{"none", {}, Test([](const Value& v) { return v.IsNone(); })},
    Builtin{"boolean", {}, Test([](const Value& v) { return v.IsBool(); })},
    Builtin{"true", {}, Test([](const Value& v) { return v.IsBool() && v.Truth(); })},
    Builtin{"false", {}, Test([](const Value& v) { return v.IsBool() && !v.Truth(); })},
    Builtin{"integer", {}, Test([](const Value& v) { return v.IsInteger(); })},
    Builtin{"float", {}, Test([](const Value& v) { return v.IsFloat(); })},
    Builtin{"number", {}, Test([](const Value& v) { return v.IsNumber(); })},
    Builtin{"string", {}, Test([](const Value& v) { return v.IsText(); })},
    Builtin{"mapping", {}, Test([](const Value& v) { return v.AsMapping() != nullptr; })},
    Builtin{"sequence", {}, Test([](const Value& v) { return v.IsUndefined() || IsSequence(v); })},
    Builtin{"iterable", {}, Test([](const Value& v) { return IsIterable(v); })},
    Builtin{"callable", {}, Test([](const Value& v) { return v.IsUndefined() || IsCallable(v); })},
    Builtin{"escaped", {}, Test([](const Value&) { return false; })},
    Builtin{"odd", {}, OddEven<1>},
    Builtin{"even", {}, OddEven<0>},
    Builtin{"divisibleby", {"!num"}, DivisibleBy},
    Builtin{"upper", {}, Cased<true>},
    Builtin{"lower", {}, Cased<false>},
    Builtin{"sameas", {"!other"}, Same},
    Builtin{"in", {"!seq"}, In},
    Builtin{"filter", {}, IsFilter},
    Builtin{"test", {}, IsTest},
    Builtin{"eq", {"!other"}, Compared<'=', false>},
    Builtin{"equalto", {"!other"}, Compared<'=', false>},
    Builtin{"==", {"!other"}, Compared<'=', false>},
    Builtin{"ne", {"!other"}, Compared<'!', false>},
    Builtin{"!=", {"!other"}, Compared<'!', false>},
    Builtin{"lt", {"!other"}, Compared<'<', false>},
    Builtin{"lessthan", {"!other"}, Compared<'<', false>},
    Builtin{"<", {"!other"}, Compared<'<', false>},
    Builtin{"le", {"!other"}, Compared<'<', true>},
    Builtin{"<=", {"!other"}, Compared<'<', true>},
    Builtin{"gt", {"!other"}, Compared<'>', false>},
    Builtin{"greaterthan", {"!other"}, Compared<'>', false>},
    Builtin{">", {"!other"}, Compared<'>', false>},
    Builtin{"ge", {"!other"}, Compared<'>', true>},
    Builtin{">=", {"!other"}, Compared<'>', true>},
};

}  // namespace

std::span<const Builtin> Tests() { return kTests; }

}  // namespace ringside::jinja
