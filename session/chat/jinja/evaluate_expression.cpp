#include <algorithm>

#include "session/chat/jinja/evaluator.h"
#include "session/chat/jinja/text.h"

namespace ringside::jinja {
namespace {

using ExpressionKind = ExpressionNode::Kind;

Value Bound(const Builtin* builtin, Value self) {
  return Value(std::make_shared<const BoundBuiltin>(BoundBuiltin{builtin, std::move(self)}));
}

/// Index of element `index` of `size`, counted from the end if negative.
std::optional<size_t> Position(int64_t index, int64_t size) {
  if (index < 0) index += size;
  return index >= 0 && index < size ? std::optional(static_cast<size_t>(index)) : std::nullopt;
}

Value NoAttribute(const Value& of, std::string_view name) {
  return Value::UndefinedBecause(std::string("a value of type ") + of.TypeName() + " has no '" + std::string(name) +
                                 "'");
}

}  // namespace

Result<Value> Evaluator::Evaluate(const ExpressionNode& node) {
  RETURN_IF_ERROR(Spend(1));
  if (nested_ >= kMaxNested) return InvalidArgument("macros are nested too deeply");
  ++nested_;
  Result<Value> value = EvaluateHere(node);
  --nested_;
  return value;
}

Result<Value> Evaluator::EvaluateHere(const ExpressionNode& node) {
  switch (node.kind) {
    case ExpressionKind::kConstant:
      return node.constant;
    case ExpressionKind::kName:
      return Lookup(node.text);
    case ExpressionKind::kList:
    case ExpressionKind::kTuple:
    case ExpressionKind::kDict:
    case ExpressionKind::kAnd:
    case ExpressionKind::kOr:
    case ExpressionKind::kChoice:
      return EvaluateParts(node);
    case ExpressionKind::kAttribute: {
      ASSIGN_OR_RETURN(const Value of, Evaluate(*node.parts[0]));
      return Attribute(of, node.text);
    }
    case ExpressionKind::kItem: {
      ASSIGN_OR_RETURN(const Value of, Evaluate(*node.parts[0]));
      ASSIGN_OR_RETURN(const Value key, Evaluate(*node.parts[1]));
      return Item(of, key);
    }
    case ExpressionKind::kSlice:
      return EvaluateSlice(node);
    case ExpressionKind::kCall:
      return EvaluateCall(node, {});
    case ExpressionKind::kFilter:
      return ApplyFilter(node, nullptr);
    case ExpressionKind::kTest:
      return ApplyTest(node);
    case ExpressionKind::kNot: {
      ASSIGN_OR_RETURN(const Value value, Evaluate(*node.parts[0]));
      return Value(!value.Truth());
    }
    case ExpressionKind::kNegative:
    case ExpressionKind::kPositive:
      return EvaluateSign(node);
    case ExpressionKind::kBinary:
      return EvaluateBinary(node);
    case ExpressionKind::kCompare:
      return EvaluateCompare(node);
  }
  CheckFailed(__FILE__, __LINE__, "unknown expression");
}

Result<Value> Evaluator::EvaluateParts(const ExpressionNode& node) {
  if (node.kind == ExpressionKind::kChoice) {
    ASSIGN_OR_RETURN(const Value condition, Evaluate(*node.parts[0]));
    const ExpressionPtr& chosen = node.parts[condition.Truth() ? 1 : 2];
    if (chosen == nullptr) return Value::UndefinedBecause("a condition does not hold, and there is no 'else'");
    return Evaluate(*chosen);
  }
  std::vector<Value> values;
  for (const ExpressionPtr& part : node.parts) {
    ASSIGN_OR_RETURN(Value value, Evaluate(*part));
    const bool decided =
        (node.kind == ExpressionKind::kAnd && !value.Truth()) || (node.kind == ExpressionKind::kOr && value.Truth());
    values.push_back(std::move(value));
    if (decided) break;
  }
  if (node.kind == ExpressionKind::kAnd || node.kind == ExpressionKind::kOr) return std::move(values.back());
  if (node.kind != ExpressionKind::kDict) {
    return MakeSequence(node.kind == ExpressionKind::kTuple ? SequenceValue::Kind::kTuple : SequenceValue::Kind::kList,
                        std::move(values));
  }
  std::vector<std::pair<Value, Value>> entries;
  for (size_t i = 0; i < values.size(); i += 2) entries.emplace_back(std::move(values[i]), std::move(values[i + 1]));
  return MakeMapping(std::move(entries));
}

Result<Value> Evaluator::EvaluateSlice(const ExpressionNode& node) {
  ASSIGN_OR_RETURN(const Value of, Evaluate(*node.parts[0]));
  Value bounds[3] = {Value::None{}, Value::None{}, Value::None{}};
  for (size_t i = 0; i < 3; ++i) {
    if (node.parts[i + 1] == nullptr) continue;
    ASSIGN_OR_RETURN(bounds[i], Evaluate(*node.parts[i + 1]));
  }
  return SliceOf(*this, of, bounds[0], bounds[1], bounds[2]);
}

Result<Value> Evaluator::EvaluateBinary(const ExpressionNode& node) {
  ASSIGN_OR_RETURN(const Value a, Evaluate(*node.parts[0]));
  ASSIGN_OR_RETURN(const Value b, Evaluate(*node.parts[1]));
  return Compute(*this, node.text, a, b);
}

Result<Value> Evaluator::EvaluateSign(const ExpressionNode& node) {
  ASSIGN_OR_RETURN(const Value value, Evaluate(*node.parts[0]));
  if (value.IsUndefined()) return InvalidArgument(value.Why());
  if (!value.IsNumber()) return InvalidArgument(std::string("a value of type ") + value.TypeName() + " has no sign");
  if (node.kind == ExpressionKind::kPositive) return value.IsFloat() ? value : Value(value.Integer());
  if (value.IsFloat()) return Value(-value.Number());
  return Compute(*this, "-", Value(int64_t{0}), value);
}

Result<Value> Evaluator::EvaluateCompare(const ExpressionNode& node) {
  ASSIGN_OR_RETURN(Value left, Evaluate(*node.parts[0]));
  for (size_t i = 0; i < node.signs.size(); ++i) {
    ASSIGN_OR_RETURN(Value right, Evaluate(*node.parts[i + 1]));
    const std::string& sign = node.signs[i];
    bool holds = false;
    if (sign == "in" || sign == "not in") {
      ASSIGN_OR_RETURN(const bool contains, Contains(right, left));
      holds = contains == (sign == "in");
    } else {
      RETURN_IF_ERROR(Spend(std::min(left.weight(), right.weight())));
      if (sign == "==" || sign == "!=") {
        holds = Equal(left, right) == (sign == "==");
      } else {
        const bool swapped = sign[0] == '>';
        ASSIGN_OR_RETURN(holds, swapped ? Less(right, left) : Less(left, right));
        if (!holds && sign.size() == 2) holds = Equal(left, right);
      }
    }
    if (!holds) return Value(false);
    left = std::move(right);
  }
  return Value(true);
}

Result<bool> Evaluator::Contains(const Value& container, const Value& value) {
  if (container.IsUndefined()) return false;
  if (container.IsText()) {
    if (!value.IsText()) return InvalidArgument(std::string("a text has no ") + value.TypeName() + " in it");
    RETURN_IF_ERROR(Spend(container.weight()));
    return container.Text().find(value.Text()) != std::string::npos;
  }
  if (const MappingValue* mapping = container.AsMapping()) {
    if (!IsKey(value)) return InvalidArgument(std::string("a dict has no keys of type ") + value.TypeName());
    RETURN_IF_ERROR(Spend(static_cast<int64_t>(mapping->entries.size())));
    return mapping->Find(value) != nullptr;
  }
  const SequenceValue* sequence = container.AsSequence();
  if (sequence == nullptr) return InvalidArgument(std::string("nothing is in a value of type ") + container.TypeName());
  RETURN_IF_ERROR(Spend(container.weight()));
  return std::ranges::any_of(sequence->items, [&](const Value& item) { return Equal(item, value); });
}

Result<Value> Evaluator::Item(const Value& of, const Value& key) {
  if (of.IsUndefined()) return InvalidArgument(of.Why());
  const bool index = key.IsInteger() || key.IsBool();
  if (const MappingValue* mapping = of.AsMapping()) {
    RETURN_IF_ERROR(Spend(static_cast<int64_t>(mapping->entries.size()) / 8));
    if (const Value* found = mapping->Find(key)) return *found;
  } else if (const SequenceValue* sequence = of.AsSequence(); sequence != nullptr && sequence->indexed() && index) {
    const auto at = Position(key.Integer(), static_cast<int64_t>(sequence->items.size()));
    if (at) return sequence->items[*at];
  } else if (of.IsText() && index) {
    RETURN_IF_ERROR(Spend(of.weight()));
    const auto at = Position(key.Integer(), LengthOf(of.Text()));
    if (at) return Value(PartOf(of.Text(), static_cast<int64_t>(*at), static_cast<int64_t>(*at) + 1));
  }
  if (key.IsText() && of.AsMapping() == nullptr) return Attribute(of, key.Text());
  if (key.IsText()) {
    const Builtin* method = FindMethod(of, key.Text());
    return method == nullptr ? NoAttribute(of, key.Text()) : Bound(method, of);
  }
  return Value::UndefinedBecause(std::string("a value of type ") + of.TypeName() + " has no such element");
}

Result<Value> Evaluator::Attribute(const Value& of, std::string_view name) {
  if (of.IsUndefined()) return InvalidArgument(of.Why());
  if (auto* loop = dynamic_cast<LoopObject*>(of.AsObject())) return LoopAttribute(loop, name);
  if (const auto* space = dynamic_cast<const NamespaceObject*>(of.AsObject())) {
    RETURN_IF_ERROR(Spend(static_cast<int64_t>(space->attributes.size()) / 8));
    for (const auto& [known, value] : space->attributes) {
      if (known == name) return value;
    }
  }
  if (const Builtin* method = FindMethod(of, name)) return Bound(method, of);
  if (const MappingValue* mapping = of.AsMapping()) {
    RETURN_IF_ERROR(Spend(static_cast<int64_t>(mapping->entries.size()) / 8));
    if (const Value* found = mapping->Find(Value(name))) return *found;
  }
  if (name.starts_with('_')) return InvalidArgument("'" + std::string(name) + "' is private");
  return NoAttribute(of, name);
}

Result<Value> Evaluator::Iterate(const Value& value) {
  if (value.AsSequence() != nullptr) return value;
  std::vector<Value> items;
  if (value.IsText()) {
    RETURN_IF_ERROR(Spend(static_cast<int64_t>(value.Text().size())));
    for (const std::string_view character : CharactersOf(value.Text())) items.emplace_back(character);
  } else if (const MappingValue* mapping = value.AsMapping()) {
    RETURN_IF_ERROR(Spend(static_cast<int64_t>(mapping->entries.size())));
    for (const auto& entry : mapping->entries) items.push_back(entry.first);
  } else if (!value.IsUndefined()) {
    return InvalidArgument(std::string("a value of type ") + value.TypeName() + " is no list");
  }
  return MakeList(std::move(items));
}

Value Evaluator::Lookup(std::string_view name) const {
  for (const Scope* scope = scope_.get(); scope != nullptr; scope = scope->parent.get()) {
    for (const auto& [known, value] : scope->names) {
      if (known == name) return value;
    }
  }
  const Builtin* function = FindFunction(name);
  return function == nullptr ? Value::UndefinedBecause("'" + std::string(name) + "' is undefined")
                             : Bound(function, {});
}

Result<Arguments> Evaluator::EvaluateArguments(const ExpressionNode& node) {
  Arguments arguments;
  for (size_t i = 1; i < node.parts.size(); ++i) {
    ASSIGN_OR_RETURN(Value value, Evaluate(*node.parts[i]));
    arguments.positional.push_back(std::move(value));
  }
  for (const auto& [name, part] : node.keywords) {
    ASSIGN_OR_RETURN(Value value, Evaluate(*part));
    arguments.keywords.emplace_back(name, std::move(value));
  }
  return arguments;
}

Result<Value> Evaluator::ApplyFilter(const ExpressionNode& node, const Value* block) {
  if (node.builtin == nullptr) return InvalidArgument("there is no filter '" + node.text + "' here");
  Value subject;
  if (node.parts[0] == nullptr) {
    subject = *block;
  } else if (node.parts[0]->kind == ExpressionKind::kFilter) {
    ASSIGN_OR_RETURN(subject, ApplyFilter(*node.parts[0], block));
  } else {
    ASSIGN_OR_RETURN(subject, Evaluate(*node.parts[0]));
  }
  ASSIGN_OR_RETURN(Arguments arguments, EvaluateArguments(node));
  return CallBuiltin(*node.builtin, subject, std::move(arguments));
}

Result<Value> Evaluator::ApplyTest(const ExpressionNode& node) {
  if (node.builtin == nullptr) return InvalidArgument("there is no test '" + node.text + "' here");
  ASSIGN_OR_RETURN(const Value subject, Evaluate(*node.parts[0]));
  ASSIGN_OR_RETURN(Arguments arguments, EvaluateArguments(node));
  return CallBuiltin(*node.builtin, subject, std::move(arguments));
}

Result<Value> Evaluator::CallBuiltin(const Builtin& builtin, const Value& self, Arguments arguments) {
  RETURN_IF_ERROR(Spend(1));
  ASSIGN_OR_RETURN(const BoundArguments bound, Bind(builtin, std::move(arguments)));
  return builtin.run(*this, self, bound);
}

Result<Value> Evaluator::EvaluateCall(const ExpressionNode& node, Value caller) {
  ASSIGN_OR_RETURN(std::optional<Value> mutated, CallMutator(node));
  if (mutated) return *std::move(mutated);
  ASSIGN_OR_RETURN(const Value callee, Evaluate(*node.parts[0]));
  ASSIGN_OR_RETURN(Arguments arguments, EvaluateArguments(node));
  return Call(callee, std::move(arguments), std::move(caller));
}

Result<Value> Evaluator::Call(const Value& callee, Arguments arguments, Value caller) {
  if (callee.IsUndefined()) return InvalidArgument(callee.Why());
  if (const BoundBuiltin* bound = callee.AsBuiltin()) {
    return CallBuiltin(*bound->builtin, bound->self, std::move(arguments));
  }
  if (const auto* macro = dynamic_cast<const MacroObject*>(callee.AsObject())) {
    return CallMacro(*macro, std::move(arguments), std::move(caller));
  }
  return InvalidArgument(std::string("a value of type ") + callee.TypeName() + " cannot be called");
}

Result<Value> Evaluator::CallMacro(const MacroObject& macro, Arguments arguments, Value caller) {
  const std::vector<std::string>& parameters = macro.signature->parameters;
  const auto named = [&](std::string_view name) {
    return InvalidArgument("macro '" + macro.signature->name + "' takes no " + std::string(name));
  };
  if (arguments.positional.size() > parameters.size()) return named("so many arguments");
  std::vector<std::optional<Value>> values(parameters.size());
  for (size_t i = 0; i < arguments.positional.size(); ++i) values[i] = std::move(arguments.positional[i]);
  for (auto& [name, value] : arguments.keywords) {
    const auto at = static_cast<size_t>(std::ranges::find(parameters, name) - parameters.begin());
    if (at == parameters.size() || values[at]) return named("'" + name + "'");
    values[at] = std::move(value);
  }
  ASSIGN_OR_RETURN(std::shared_ptr<Scope> scope, NewScope(macro.scope));
  std::swap(scope_, scope);
  const size_t required = parameters.size() - macro.signature->defaults.size();
  Status status;
  for (size_t i = 0; i < parameters.size() && status.ok(); ++i) {
    if (!values[i] && i >= required) {
      Result<Value> value = Evaluate(*macro.signature->defaults[i - required]);
      status = value.status();
      if (status.ok()) values[i] = std::move(*value);
    }
    scope_->Set(parameters[i], values[i] ? *std::move(values[i])
                                         : Value::UndefinedBecause("argument '" + parameters[i] + "' is missing"));
  }
  std::swap(scope_, scope);
  RETURN_IF_ERROR(status);
  if (caller.IsUndefined()) caller = Value::UndefinedBecause("no block calls this macro");
  scope->Set("caller", std::move(caller));
  ASSIGN_OR_RETURN(std::string text, Capture(*macro.body, macro.scope, std::move(scope->names)));
  return Value(std::move(text));
}

}  // namespace ringside::jinja
