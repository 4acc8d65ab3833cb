#include "session/chat/jinja/mutators.h"

#include <algorithm>
#include <span>

#include "session/chat/jinja/evaluator.h"

namespace ringside::jinja {
namespace {

/// A copy to change, which is paid for.
Result<std::vector<Value>> CopiedItems(Evaluator& evaluator, const Value& list) {
  RETURN_IF_ERROR(evaluator.Spend(1 + static_cast<int64_t>(list.AsSequence()->items.size()) / 8));
  return list.AsSequence()->items;
}

using Entries = std::vector<std::pair<Value, Value>>;

Result<Entries> EntriesOf(Evaluator& evaluator, const Value& dict) {
  RETURN_IF_ERROR(evaluator.Spend(1 + static_cast<int64_t>(dict.AsMapping()->entries.size()) / 4));
  return dict.AsMapping()->entries;
}

Result<Value> SetList(std::vector<Value> items, Value* self) {
  ASSIGN_OR_RETURN(*self, MakeList(std::move(items)));
  return Value(Value::None{});
}

/// Python's index: negative from the end. kInvalidArgument outside the list.
Result<size_t> IndexIn(const Value& index, size_t size) {
  if (!index.IsInteger()) return InvalidArgument("a list's index is a number");
  const int64_t at = index.Integer() < 0 ? index.Integer() + static_cast<int64_t>(size) : index.Integer();
  if (at < 0 || at >= static_cast<int64_t>(size)) return InvalidArgument("a list's index is out of range");
  return static_cast<size_t>(at);
}

Result<Value> Append(Evaluator& evaluator, Value* self, const BoundArguments& arguments) {
  ASSIGN_OR_RETURN(std::vector<Value> items, CopiedItems(evaluator, *self));
  items.push_back(arguments.Get(0));
  return SetList(std::move(items), self);
}

Result<Value> Extend(Evaluator& evaluator, Value* self, const BoundArguments& arguments) {
  ASSIGN_OR_RETURN(std::vector<Value> items, CopiedItems(evaluator, *self));
  ASSIGN_OR_RETURN(const Value more, evaluator.Iterate(arguments.Get(0)));
  RETURN_IF_ERROR(evaluator.Spend(static_cast<int64_t>(more.AsSequence()->items.size())));
  items.insert(items.end(), more.AsSequence()->items.begin(), more.AsSequence()->items.end());
  return SetList(std::move(items), self);
}

Result<Value> Insert(Evaluator& evaluator, Value* self, const BoundArguments& arguments) {
  ASSIGN_OR_RETURN(std::vector<Value> items, CopiedItems(evaluator, *self));
  if (!arguments.Get(0).IsInteger()) return InvalidArgument("a list's index is a number");
  const auto size = static_cast<int64_t>(items.size());
  const int64_t asked = arguments.Get(0).Integer();
  const int64_t at = std::clamp(asked < 0 && asked >= -size ? asked + size : asked, int64_t{0}, size);
  items.insert(items.begin() + at, arguments.Get(1));
  return SetList(std::move(items), self);
}

Result<Value> PopItem(Evaluator& evaluator, Value* self, const BoundArguments& arguments) {
  ASSIGN_OR_RETURN(std::vector<Value> items, CopiedItems(evaluator, *self));
  ASSIGN_OR_RETURN(const size_t at, IndexIn(arguments.Get(0, int64_t{-1}), items.size()));
  Value popped = items[at];
  items.erase(items.begin() + static_cast<ptrdiff_t>(at));
  RETURN_IF_ERROR(SetList(std::move(items), self).status());
  return popped;
}

Result<Value> RemoveItem(Evaluator& evaluator, Value* self, const BoundArguments& arguments) {
  RETURN_IF_ERROR(evaluator.Spend(self->weight()));
  ASSIGN_OR_RETURN(std::vector<Value> items, CopiedItems(evaluator, *self));
  const Value what = arguments.Get(0);
  const auto found = std::ranges::find_if(items, [&](const Value& item) { return Equal(item, what); });
  if (found == items.end()) return InvalidArgument("value not found in the list");
  items.erase(found);
  return SetList(std::move(items), self);
}

Result<Value> Reverse(Evaluator& evaluator, Value* self, const BoundArguments&) {
  ASSIGN_OR_RETURN(std::vector<Value> items, CopiedItems(evaluator, *self));
  std::ranges::reverse(items);
  return SetList(std::move(items), self);
}

Result<Value> ClearList(Evaluator&, Value* self, const BoundArguments&) { return SetList({}, self); }

/// Its own entries, then those of a dict and of keywords.
Result<Value> Update(Evaluator& evaluator, Value* self, const BoundArguments& arguments) {
  ASSIGN_OR_RETURN(Entries entries, EntriesOf(evaluator, *self));
  const Arguments& given = arguments.given();
  if (given.positional.size() > 1) return InvalidArgument("'update' takes one dict");
  for (const Value& other : given.positional) {
    if (other.AsMapping() == nullptr) return InvalidArgument("'update' takes a dict");
    ASSIGN_OR_RETURN(const Entries more, EntriesOf(evaluator, other));
    entries.insert(entries.end(), more.begin(), more.end());
  }
  for (const auto& [name, value] : given.keywords) entries.emplace_back(name, value);
  RETURN_IF_ERROR(evaluator.Spend(static_cast<int64_t>(entries.size())));
  ASSIGN_OR_RETURN(*self, MakeMapping(std::move(entries)));
  return Value(Value::None{});
}

Result<Value> SetDefault(Evaluator& evaluator, Value* self, const BoundArguments& arguments) {
  ASSIGN_OR_RETURN(Entries entries, EntriesOf(evaluator, *self));
  if (const Value* found = self->AsMapping()->Find(arguments.Get(0)); found != nullptr) return *found;
  Value value = arguments.Get(1, Value::None{});
  entries.emplace_back(arguments.Get(0), value);
  ASSIGN_OR_RETURN(*self, MakeMapping(std::move(entries)));
  return value;
}

Result<Value> PopKey(Evaluator& evaluator, Value* self, const BoundArguments& arguments) {
  ASSIGN_OR_RETURN(Entries entries, EntriesOf(evaluator, *self));
  const Value key = arguments.Get(0);
  const auto found = std::ranges::find_if(entries, [&](const auto& entry) { return Equal(entry.first, key); });
  if (found == entries.end()) {
    if (arguments.Has(1)) return arguments.Get(1);
    return InvalidArgument("a key is not in the dict");
  }
  Value popped = found->second;
  entries.erase(found);
  ASSIGN_OR_RETURN(*self, MakeMapping(std::move(entries)));
  return popped;
}

Result<Value> PopLast(Evaluator& evaluator, Value* self, const BoundArguments&) {
  ASSIGN_OR_RETURN(Entries entries, EntriesOf(evaluator, *self));
  if (entries.empty()) return InvalidArgument("the dict is empty");
  auto [key, value] = std::move(entries.back());
  entries.pop_back();
  ASSIGN_OR_RETURN(*self, MakeMapping(std::move(entries)));
  return MakeSequence(SequenceValue::Kind::kTuple, {key, value});
}

Result<Value> ClearDict(Evaluator&, Value* self, const BoundArguments&) {
  ASSIGN_OR_RETURN(*self, MakeMapping({}));
  return Value(Value::None{});
}

constexpr Mutator kListMutators[] = {
    {{"append", {"!object"}}, Append},
    {{"extend", {"!iterable"}}, Extend},
    {{"insert", {"!index", "!object"}}, Insert},
    {{"pop", {"index"}}, PopItem},
    {{"remove", {"!value"}}, RemoveItem},
    {{"reverse", {}}, Reverse},
    {{"clear", {}}, ClearList},
};

constexpr Mutator kDictMutators[] = {
    {{"update", {"*"}}, Update},
    {{"setdefault", {"!key", "default"}}, SetDefault},
    {{"pop", {"!key", "default"}}, PopKey},
    {{"popitem", {}}, PopLast},
    {{"clear", {}}, ClearDict},
};

}  // namespace

bool MayMutate(std::string_view name) {
  const auto named = [&](const Mutator& one) { return one.signature.name == name; };
  return std::ranges::any_of(kListMutators, named) || std::ranges::any_of(kDictMutators, named);
}

const Mutator* FindMutator(const Value& of, std::string_view name) {
  std::span<const Mutator> table;
  if (of.AsMapping() != nullptr) table = kDictMutators;
  if (of.AsSequence() != nullptr && of.AsSequence()->kind == SequenceValue::Kind::kList) table = kListMutators;
  const auto found = std::ranges::find_if(table, [&](const Mutator& one) { return one.signature.name == name; });
  return found == table.end() ? nullptr : &*found;
}

Result<std::optional<Value>> Evaluator::CallMutator(const ExpressionNode& node) {
  using Kind = ExpressionNode::Kind;
  const ExpressionNode& method = *node.parts[0];
  if (method.kind != Kind::kAttribute || !MayMutate(method.text)) return std::optional<Value>();
  ASSIGN_OR_RETURN(Value self, Evaluate(*method.parts[0]));
  const Mutator* const mutator = FindMutator(self, method.text);
  if (mutator == nullptr) return std::optional<Value>();
  ASSIGN_OR_RETURN(Arguments arguments, EvaluateArguments(node));
  RETURN_IF_ERROR(Spend(1));
  ASSIGN_OR_RETURN(const BoundArguments bound, Bind(mutator->signature, std::move(arguments)));
  ASSIGN_OR_RETURN(Value result, mutator->run(*this, &self, bound));
  RETURN_IF_ERROR(Store(*method.parts[0], std::move(self)));
  return std::optional(std::move(result));
}

// What is no place, such as a list that was just made, takes nothing.
Status Evaluator::Store(const ExpressionNode& place, Value value) {
  using Kind = ExpressionNode::Kind;
  if (place.kind == Kind::kName) {
    for (Scope* scope = scope_.get(); scope != nullptr; scope = scope->parent.get()) {
      const auto found = std::ranges::find(scope->names, place.text, &std::pair<std::string_view, Value>::first);
      if (found == scope->names.end()) continue;
      found->second = std::move(value);
      return Status::Ok();
    }
    return Status::Ok();
  }
  if (place.kind != Kind::kAttribute && place.kind != Kind::kItem) return Status::Ok();
  ASSIGN_OR_RETURN(const Value holder, Evaluate(*place.parts[0]));
  Value key(place.text);
  if (place.kind == Kind::kItem) {
    ASSIGN_OR_RETURN(key, Evaluate(*place.parts[1]));
  }
  if (auto* const space = dynamic_cast<NamespaceObject*>(holder.AsObject()); space != nullptr && key.IsText()) {
    const auto found = std::ranges::find(space->attributes, key.Text(), &std::pair<std::string, Value>::first);
    if (found != space->attributes.end()) found->second = std::move(value);
    return Status::Ok();
  }
  if (holder.AsMapping() != nullptr) {
    ASSIGN_OR_RETURN(Entries entries, EntriesOf(*this, holder));
    entries.emplace_back(std::move(key), std::move(value));
    ASSIGN_OR_RETURN(Value changed, MakeMapping(std::move(entries)));
    return Store(*place.parts[0], std::move(changed));
  }
  if (holder.AsSequence() == nullptr || holder.AsSequence()->kind != SequenceValue::Kind::kList) return Status::Ok();
  ASSIGN_OR_RETURN(std::vector<Value> items, CopiedItems(*this, holder));
  ASSIGN_OR_RETURN(const size_t at, IndexIn(key, items.size()));
  items[at] = std::move(value);
  ASSIGN_OR_RETURN(Value changed, MakeList(std::move(items)));
  return Store(*place.parts[0], std::move(changed));
}

}  // namespace ringside::jinja
