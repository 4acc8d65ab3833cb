// Iteration of for loops. The condition is evaluated as late as in Jinja, because the body may affect it.
#include "session/chat/jinja/evaluator.h"

namespace ringside::jinja {
namespace {

Value OrUndefined(const std::optional<Value>& value, const char* what) {
  return value ? *value : Value::UndefinedBecause(std::string("there is no ") + what + " item");
}

Result<Value> Cycle(Evaluator&, const Value& self, const BoundArguments& arguments) {
  const auto* loop = static_cast<const LoopObject*>(self.AsObject());
  const std::vector<Value>& values = arguments.given().positional;
  if (values.empty()) return InvalidArgument("loop.cycle() needs values");
  return values[static_cast<size_t>(loop->index) % values.size()];
}

Result<Value> Changed(Evaluator& evaluator, const Value& self, const BoundArguments& arguments) {
  auto* loop = static_cast<LoopObject*>(self.AsObject());
  ASSIGN_OR_RETURN(Value values, MakeSequence(SequenceValue::Kind::kTuple, arguments.given().positional));
  RETURN_IF_ERROR(evaluator.Spend(values.weight()));
  const bool changed = !loop->changed || !Equal(*loop->changed, values);
  loop->changed = std::move(values);
  return Value(changed);
}

constexpr Builtin kCycle = {"cycle", {"*"}, Cycle}, kChanged = {"changed", {"*"}, Changed};

}  // namespace

/// Makes `count` items ready if that many are left.
Status Evaluator::LookAhead(LoopObject* loop, size_t count) {
  const std::vector<Value>& items = loop->source.AsSequence()->items;
  while (loop->ready.size() < count && loop->next < items.size()) {
    const Value& item = items[loop->next++];
    if (loop->node->condition != nullptr) {
      RETURN_IF_ERROR(Spend(1));
      ASSIGN_OR_RETURN(std::shared_ptr<Scope> scope, NewScope(loop->outer));
      std::swap(scope_, scope);
      Result<Value> holds = [&]() -> Result<Value> {
        RETURN_IF_ERROR(Assign(loop->node->target, item));
        return Evaluate(*loop->node->condition);
      }();
      std::swap(scope_, scope);
      if (!holds.ok()) return holds.status();
      if (!holds->Truth()) continue;
    }
    loop->ready.push_back(item);
  }
  return Status::Ok();
}

Result<bool> Evaluator::Advance(LoopObject* loop) {
  RETURN_IF_ERROR(LookAhead(loop, 1));
  if (loop->ready.empty()) return false;
  loop->previous = std::move(loop->current);
  loop->current = std::move(loop->ready.front());
  loop->ready.pop_front();
  ++loop->index;
  return true;
}

Result<Value> Evaluator::LoopAttribute(LoopObject* loop, std::string_view name) {
  const Value self(loop);
  const auto bound = [&](const Builtin& builtin) {
    return Value(std::make_shared<const BoundBuiltin>(BoundBuiltin{&builtin, self}));
  };
  if (name == "index") return Value(loop->index + 1);
  if (name == "index0") return Value(loop->index);
  if (name == "first") return Value(loop->index == 0);
  if (name == "depth") return Value(int64_t{1});
  if (name == "depth0") return Value(int64_t{0});
  if (name == "previtem") return OrUndefined(loop->previous, "previous");
  if (name == "cycle") return bound(kCycle);
  if (name == "changed") return bound(kChanged);
  if (name == "last" || name == "nextitem") {
    RETURN_IF_ERROR(LookAhead(loop, 1));
    if (name == "last") return Value(loop->ready.empty());
    return OrUndefined(loop->ready.empty() ? std::nullopt : std::optional(loop->ready.front()), "next");
  }
  if (name == "length" || name == "revindex" || name == "revindex0") {
    const size_t all = loop->source.AsSequence()->items.size();
    if (loop->node->condition != nullptr) RETURN_IF_ERROR(LookAhead(loop, all));
    const auto length = loop->node->condition == nullptr ? static_cast<int64_t>(all)
                                                         : loop->index + 1 + static_cast<int64_t>(loop->ready.size());
    return Value(name == "length" ? length : length - loop->index - (name == "revindex" ? 0 : 1));
  }
  return Value::UndefinedBecause("a loop has no '" + std::string(name) + "'");
}

}  // namespace ringside::jinja
