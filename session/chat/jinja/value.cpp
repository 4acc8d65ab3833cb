#include "session/chat/jinja/value.h"

#include <algorithm>
#include <limits>

namespace ringside::jinja {
namespace {

constexpr int64_t kMostWeight = std::numeric_limits<int64_t>::max() / 4;

Result<bool> SequenceLess(const SequenceValue& a, const SequenceValue& b) {
  for (size_t i = 0; i < std::min(a.items.size(), b.items.size()); ++i) {
    if (!Equal(a.items[i], b.items[i])) return Less(a.items[i], b.items[i]);
  }
  return a.items.size() < b.items.size();
}

bool MappingEqual(const MappingValue& a, const MappingValue& b) {
  return a.entries.size() == b.entries.size() && std::ranges::all_of(a.entries, [&](const auto& entry) {
           const Value* other = b.Find(entry.first);
           return other != nullptr && Equal(entry.second, *other);
         });
}

}  // namespace

Value Value::UndefinedBecause(std::string why) {
  Value value;
  value.data_ = Undefined{std::make_shared<const std::string>(std::move(why))};
  return value;
}

std::string Value::Why() const {
  const auto* undefined = std::get_if<Undefined>(&data_);
  return undefined == nullptr || undefined->why == nullptr ? "a value is undefined" : *undefined->why;
}

const char* Value::TypeName() const {
  if (IsUndefined()) return "Undefined";
  if (IsNone()) return "NoneType";
  if (IsBool()) return "bool";
  if (IsInteger()) return "int";
  if (IsFloat()) return "float";
  if (IsText()) return "str";
  if (AsMapping() != nullptr) return "dict";
  if (const SequenceValue* sequence = AsSequence()) {
    static constexpr const char* kNames[] = {"list", "tuple", "dict view", "generator"};
    return kNames[static_cast<size_t>(sequence->kind)];
  }
  return AsBuiltin() != nullptr ? "function" : "object";
}

bool Value::Truth() const {
  if (IsUndefined() || IsNone()) return false;
  if (IsNumber()) return Number() != 0;
  if (IsText()) return !Text().empty();
  if (const MappingValue* mapping = AsMapping()) return !mapping->entries.empty();
  const SequenceValue* sequence = AsSequence();
  return sequence == nullptr || sequence->kind == SequenceValue::Kind::kGenerator || !sequence->items.empty();
}

int64_t Value::weight() const {
  if (IsText()) return 1 + static_cast<int64_t>(Text().size()) / kBytesAStep;
  if (const SequenceValue* sequence = AsSequence()) return sequence->size.weight;
  if (const MappingValue* mapping = AsMapping()) return mapping->size.weight;
  if (const BoundBuiltin* bound = AsBuiltin()) return 1 + bound->self.weight();
  return 1;
}

int Value::depth() const {
  if (const SequenceValue* sequence = AsSequence()) return sequence->size.depth;
  if (const MappingValue* mapping = AsMapping()) return mapping->size.depth;
  if (const BoundBuiltin* bound = AsBuiltin()) return 1 + bound->self.depth();
  return 0;
}

void Size::Add(const Value& part) {
  weight = std::min(kMostWeight, weight + part.weight());
  depth = std::max(depth, part.depth() + 1);
}

const Value* MappingValue::Find(const Value& key) const {
  const auto found = std::ranges::find_if(entries, [&](const auto& entry) { return Equal(entry.first, key); });
  return found == entries.end() ? nullptr : &found->second;
}

bool IsKey(const Value& value) {
  const SequenceValue* sequence = value.AsSequence();
  return sequence == nullptr ? value.AsMapping() == nullptr : sequence->kind == SequenceValue::Kind::kTuple;
}

Result<Value> MakeSequence(SequenceValue::Kind kind, std::vector<Value> items) {
  auto sequence = std::make_shared<SequenceValue>(SequenceValue{kind, std::move(items)});
  for (const Value& item : sequence->items) sequence->size.Add(item);
  if (sequence->size.depth > kMaxValueDepth) return InvalidArgument("lists are nested too deeply");
  return Value(std::shared_ptr<const SequenceValue>(std::move(sequence)));
}

Result<Value> MakeMapping(std::vector<std::pair<Value, Value>> entries) {
  auto mapping = std::make_shared<MappingValue>();
  for (auto& [key, value] : entries) {
    if (!IsKey(key)) return InvalidArgument(std::string("a dict has no keys of type ") + key.TypeName());
    const auto known =
        std::ranges::find_if(mapping->entries, [&](const auto& entry) { return Equal(entry.first, key); });
    if (known == mapping->entries.end()) {
      mapping->entries.emplace_back(std::move(key), std::move(value));
    } else {
      known->second = std::move(value);
    }
  }
  for (const auto& [key, value] : mapping->entries) {
    mapping->size.Add(key);
    mapping->size.Add(value);
  }
  if (mapping->size.depth > kMaxValueDepth) return InvalidArgument("dicts are nested too deeply");
  return Value(std::shared_ptr<const MappingValue>(std::move(mapping)));
}

bool Equal(const Value& a, const Value& b) {
  if (a.IsNumber() && b.IsNumber()) {
    return a.IsFloat() || b.IsFloat() ? a.Number() == b.Number() : a.Integer() == b.Integer();
  }
  if (a.IsText() && b.IsText()) return &a.Text() == &b.Text() || a.Text() == b.Text();
  if (a.IsNone() || b.IsNone()) return a.IsNone() && b.IsNone();
  if (a.IsUndefined() || b.IsUndefined()) return a.IsUndefined() && b.IsUndefined();
  if (a.AsMapping() != nullptr && b.AsMapping() != nullptr) return MappingEqual(*a.AsMapping(), *b.AsMapping());
  if (const SequenceValue* x = a.AsSequence(), *y = b.AsSequence(); x != nullptr && y != nullptr) {
    return x == y || (x->kind == y->kind && x->indexed() && std::ranges::equal(x->items, y->items, Equal));
  }
  if (const BoundBuiltin* x = a.AsBuiltin(), *y = b.AsBuiltin(); x != nullptr && y != nullptr) {
    return x->builtin == y->builtin && Equal(x->self, y->self);
  }
  return a.AsObject() != nullptr && a.AsObject() == b.AsObject();
}

Result<bool> Less(const Value& a, const Value& b) {
  if (a.IsNumber() && b.IsNumber()) {
    return a.IsFloat() || b.IsFloat() ? a.Number() < b.Number() : a.Integer() < b.Integer();
  }
  if (a.IsText() && b.IsText()) return a.Text() < b.Text();  // UTF-8 bytes sort like code points
  const SequenceValue *x = a.AsSequence(), *y = b.AsSequence();
  if (x != nullptr && y != nullptr && x->kind == y->kind && x->indexed()) return SequenceLess(*x, *y);
  if (a.IsUndefined()) return InvalidArgument(a.Why());
  if (b.IsUndefined()) return InvalidArgument(b.Why());
  return InvalidArgument(std::string("'<' is not defined between ") + a.TypeName() + " and " + b.TypeName());
}

}  // namespace ringside::jinja
