// Filters over lists. Those that return generators in Jinja return generators here.
#include <algorithm>
#include <array>
#include <charconv>

#include "session/chat/jinja/builtins.h"
#include "session/chat/jinja/evaluator.h"
#include "session/chat/jinja/text.h"

namespace ringside::jinja {
namespace {

Result<Value> Generator(std::vector<Value> items) {
  return MakeSequence(SequenceValue::Kind::kGenerator, std::move(items));
}

/// The elements of a list, charged to the limits.
Result<std::vector<Value>> ItemsOf(Evaluator& evaluator, const Value& value) {
  ASSIGN_OR_RETURN(const Value list, evaluator.Iterate(value));
  RETURN_IF_ERROR(evaluator.Spend(static_cast<int64_t>(list.AsSequence()->items.size())));
  return list.AsSequence()->items;
}

/// "a.0.b" of an element; the element itself without an attribute.
Result<Value> AttributeOf(Evaluator& evaluator, Value item, const Value& attribute) {
  if (attribute.IsNone()) return item;
  if (attribute.IsInteger()) return evaluator.Item(item, attribute);
  if (!attribute.IsText()) return InvalidArgument("an attribute name must be a string");
  for (const std::string_view part : SplitAt(attribute.Text(), ".", kNoLimit)) {
    int64_t index = 0;
    const char* const end = part.data() + part.size();
    const bool number = !part.empty() && std::ranges::all_of(part, [](char c) { return c >= '0' && c <= '9'; }) &&
                        std::from_chars(part.data(), end, index).ec == std::errc();
    ASSIGN_OR_RETURN(item, evaluator.Item(item, number ? Value(index) : Value(part)));
  }
  return item;
}

/// Sort key of an element.
Result<Value> KeyOf(Evaluator& evaluator, const Value& item, const Value& attribute, bool case_sensitive) {
  ASSIGN_OR_RETURN(Value key, AttributeOf(evaluator, item, attribute));
  RETURN_IF_ERROR(evaluator.Spend(key.weight()));
  return key.IsText() && !case_sensitive ? Value(LowerOf(key.Text())) : std::move(key);
}

/// Stable merge sort that fails at the first incomparable pair.
Status SortByKey(Evaluator& evaluator, std::vector<std::pair<Value, Value>>* keyed, bool descending) {
  Status status;
  std::vector<std::pair<Value, Value>> other(keyed->size());
  for (size_t width = 1; width < keyed->size(); width *= 2) {
    for (size_t begin = 0; begin < keyed->size(); begin += 2 * width) {
      const size_t middle = std::min(begin + width, keyed->size()), end = std::min(begin + 2 * width, keyed->size());
      for (size_t out = begin, a = begin, b = middle; out < end; ++out) {
        bool second = a == middle;
        if (a < middle && b < end) {
          const Value &x = (*keyed)[a].first, &y = (*keyed)[b].first;
          RETURN_IF_ERROR(evaluator.Spend(std::min(x.weight(), y.weight())));
          ASSIGN_OR_RETURN(second, descending ? Less(x, y) : Less(y, x));
        }
        other[out] = (*keyed)[second ? b++ : a++];
      }
    }
    keyed->swap(other);
  }
  return status;
}

Result<Value> Sort(Evaluator& evaluator, const Value& self, const BoundArguments& arguments) {
  ASSIGN_OR_RETURN(std::vector<Value> items, ItemsOf(evaluator, self));
  std::vector<std::pair<Value, Value>> keyed;
  const Value attribute = arguments.Get(2, Value::None{});
  for (const Value& item : items) {
    std::vector<Value> keys;
    const std::vector<std::string_view> names =
        attribute.IsText() ? SplitAt(attribute.Text(), ",", kNoLimit) : std::vector<std::string_view>();
    for (size_t i = 0; i < std::max<size_t>(names.size(), 1); ++i) {
      const Value name = names.empty() ? attribute : Value(Strip(names[i]));
      ASSIGN_OR_RETURN(Value key, KeyOf(evaluator, item, name, arguments.Get(1, false).Truth()));
      keys.push_back(std::move(key));
    }
    ASSIGN_OR_RETURN(Value key, MakeList(std::move(keys)));
    keyed.emplace_back(std::move(key), item);
  }
  RETURN_IF_ERROR(SortByKey(evaluator, &keyed, arguments.Get(0, false).Truth()));
  for (size_t i = 0; i < keyed.size(); ++i) items[i] = keyed[i].second;
  return MakeList(std::move(items));
}

Result<Value> DictSort(Evaluator& evaluator, const Value& self, const BoundArguments& arguments) {
  const MappingValue* mapping = self.AsMapping();
  if (mapping == nullptr) return InvalidArgument("'dictsort' takes a dict");
  const Value by = arguments.Get(1, "key");
  if (!Equal(by, "key") && !Equal(by, "value")) return InvalidArgument("'dictsort' sorts by key or by value");
  std::vector<std::pair<Value, Value>> keyed;
  for (const auto& [name, value] : mapping->entries) {
    ASSIGN_OR_RETURN(Value pair, MakeSequence(SequenceValue::Kind::kTuple, {name, value}));
    const bool sensitive = arguments.Get(0, false).Truth();
    ASSIGN_OR_RETURN(Value key, KeyOf(evaluator, Equal(by, "key") ? name : value, Value::None{}, sensitive));
    keyed.emplace_back(std::move(key), std::move(pair));
  }
  RETURN_IF_ERROR(SortByKey(evaluator, &keyed, arguments.Get(2, false).Truth()));
  std::vector<Value> items;
  for (auto& entry : keyed) items.push_back(std::move(entry.second));
  return MakeList(std::move(items));
}

template <bool kLeast>
Result<Value> Extreme(Evaluator& evaluator, const Value& self, const BoundArguments& arguments) {
  ASSIGN_OR_RETURN(const std::vector<Value> items, ItemsOf(evaluator, self));
  if (items.empty()) return Value::UndefinedBecause("there is nothing to choose from");
  const Value attribute = arguments.Get(1, Value::None{});
  const bool sensitive = arguments.Get(0, false).Truth();
  Value best = items[0];
  ASSIGN_OR_RETURN(Value best_key, KeyOf(evaluator, best, attribute, sensitive));
  for (size_t i = 1; i < items.size(); ++i) {
    ASSIGN_OR_RETURN(Value key, KeyOf(evaluator, items[i], attribute, sensitive));
    ASSIGN_OR_RETURN(const bool better, kLeast ? Less(key, best_key) : Less(best_key, key));
    if (!better) continue;
    best = items[i];
    best_key = std::move(key);
  }
  return best;
}

Result<Value> Unique(Evaluator& evaluator, const Value& self, const BoundArguments& arguments) {
  ASSIGN_OR_RETURN(const std::vector<Value> items, ItemsOf(evaluator, self));
  std::vector<Value> keys, kept;
  for (const Value& item : items) {
    ASSIGN_OR_RETURN(Value key,
                     KeyOf(evaluator, item, arguments.Get(1, Value::None{}), arguments.Get(0, false).Truth()));
    RETURN_IF_ERROR(evaluator.Spend(static_cast<int64_t>(keys.size())));
    if (!IsKey(key)) return InvalidArgument(std::string("'unique' takes no ") + key.TypeName());
    if (std::ranges::any_of(keys, [&](const Value& known) { return Equal(known, key); })) continue;
    keys.push_back(std::move(key));
    kept.push_back(item);
  }
  return Generator(std::move(kept));
}

Result<Value> Sum(Evaluator& evaluator, const Value& self, const BoundArguments& arguments) {
  ASSIGN_OR_RETURN(const std::vector<Value> items, ItemsOf(evaluator, self));
  Value sum = arguments.Get(1, int64_t{0});
  for (const Value& item : items) {
    ASSIGN_OR_RETURN(const Value part, AttributeOf(evaluator, item, arguments.Get(0, Value::None{})));
    ASSIGN_OR_RETURN(sum, Compute(evaluator, "+", sum, part));
  }
  return sum;
}

Result<Value> JoinFilter(Evaluator& evaluator, const Value& self, const BoundArguments& arguments) {
  ASSIGN_OR_RETURN(const std::vector<Value> items, ItemsOf(evaluator, self));
  ASSIGN_OR_RETURN(const std::string between, ToText(arguments.Get(0, "")));
  std::string out;
  for (size_t i = 0; i < items.size(); ++i) {
    ASSIGN_OR_RETURN(const Value part, AttributeOf(evaluator, items[i], arguments.Get(1, Value::None{})));
    RETURN_IF_ERROR(evaluator.Spend(part.weight()));
    ASSIGN_OR_RETURN(const std::string text, ToText(part));
    RETURN_IF_ERROR(evaluator.SpendBytes(out.size() + text.size() + between.size() > (size_t{1} << 28)
                                             ? size_t{1} << 40
                                             : text.size() + between.size()));
    if (i > 0) out += between;
    out += text;
  }
  return Value(std::move(out));
}

Result<Value> Length(Evaluator& evaluator, const Value& self, const BoundArguments&) {
  if (self.IsUndefined()) return Value(int64_t{0});
  if (self.IsText()) {
    RETURN_IF_ERROR(evaluator.Spend(self.weight()));
    return Value(LengthOf(self.Text()));
  }
  if (const MappingValue* mapping = self.AsMapping()) return Value(static_cast<int64_t>(mapping->entries.size()));
  const SequenceValue* sequence = self.AsSequence();
  if (sequence != nullptr && sequence->kind != SequenceValue::Kind::kGenerator)
    return Value(static_cast<int64_t>(sequence->items.size()));
  return InvalidArgument(std::string("a value of type ") + self.TypeName() + " has no length");
}

template <bool kFirst>
Result<Value> End(Evaluator& evaluator, const Value& self, const BoundArguments&) {
  ASSIGN_OR_RETURN(const Value list, evaluator.Iterate(self));
  const SequenceValue& items = *list.AsSequence();
  if (!kFirst && items.kind == SequenceValue::Kind::kGenerator)
    return InvalidArgument("a generator has no last element");
  if (items.items.empty()) return Value::UndefinedBecause("an empty list has no first and no last element");
  return kFirst ? items.items.front() : items.items.back();
}

Result<Value> ListOf(Evaluator& evaluator, const Value& self, const BoundArguments&) {
  ASSIGN_OR_RETURN(std::vector<Value> items, ItemsOf(evaluator, self));
  return MakeList(std::move(items));
}

Result<Value> Items(Evaluator& evaluator, const Value& self, const BoundArguments&) {
  if (self.IsUndefined()) return Generator({});
  const MappingValue* mapping = self.AsMapping();
  if (mapping == nullptr) return InvalidArgument("'items' takes a dict");
  RETURN_IF_ERROR(evaluator.Spend(static_cast<int64_t>(mapping->entries.size())));
  std::vector<Value> pairs;
  for (const auto& [key, value] : mapping->entries) {
    ASSIGN_OR_RETURN(Value pair, MakeSequence(SequenceValue::Kind::kTuple, {key, value}));
    pairs.push_back(std::move(pair));
  }
  return Generator(std::move(pairs));
}

Result<Value> Reverse(Evaluator& evaluator, const Value& self, const BoundArguments&) {
  if (self.IsText()) return SliceOf(evaluator, self, Value::None{}, Value::None{}, int64_t{-1});
  ASSIGN_OR_RETURN(std::vector<Value> items, ItemsOf(evaluator, self));
  std::ranges::reverse(items);
  return Generator(std::move(items));
}

Result<Value> Batch(Evaluator& evaluator, const Value& self, const BoundArguments& arguments) {
  ASSIGN_OR_RETURN(const std::vector<Value> items, ItemsOf(evaluator, self));
  const Value size = arguments.Get(0), fill = arguments.Get(1, Value::None{});
  if (!size.IsInteger() || size.Integer() < 1) return InvalidArgument("'batch' takes a positive size");
  if (!fill.IsNone() && !items.empty()) RETURN_IF_ERROR(evaluator.Spend(size.Integer()));
  std::vector<Value> batches, batch;
  for (size_t i = 0; i < items.size(); ++i) {
    batch.push_back(items[i]);
    if (static_cast<int64_t>(batch.size()) < size.Integer() && i + 1 < items.size()) continue;
    if (!fill.IsNone()) batch.resize(static_cast<size_t>(size.Integer()), fill);
    ASSIGN_OR_RETURN(Value list, MakeList(std::exchange(batch, {})));
    batches.push_back(std::move(list));
  }
  return Generator(std::move(batches));
}

/// Calls a filter or test by name with the given arguments.
Result<Value> CallByName(Evaluator& evaluator, const Value& name, bool filter, const Value& item, Arguments rest) {
  const Builtin* builtin = !name.IsText() ? nullptr : filter ? FindFilter(name.Text()) : FindTest(name.Text());
  if (builtin == nullptr)
    return InvalidArgument(std::string("there is no such ") + (filter ? "filter" : "test") + " here");
  return evaluator.CallBuiltin(*builtin, item, std::move(rest));
}

Arguments Behind(const Arguments& given, size_t count) {
  Arguments rest;
  rest.keywords = given.keywords;
  if (count < given.positional.size()) {
    rest.positional.assign(given.positional.begin() + static_cast<ptrdiff_t>(count), given.positional.end());
  }
  return rest;
}

Result<Value> Map(Evaluator& evaluator, const Value& self, const BoundArguments& arguments) {
  if (!self.Truth()) return Generator({});  // whatever its type
  ASSIGN_OR_RETURN(std::vector<Value> items, ItemsOf(evaluator, self));
  const Arguments& given = arguments.given();
  Value attribute;
  std::optional<Value> fallback;
  for (const auto& [name, value] : given.keywords) {
    if (name == "attribute") attribute = value;
    if (name == "default") fallback = value;
  }
  for (Value& item : items) {
    if (given.positional.empty() && !attribute.IsUndefined()) {
      ASSIGN_OR_RETURN(item, AttributeOf(evaluator, item, attribute));
      if (item.IsUndefined() && fallback) item = *fallback;
    } else {
      if (given.positional.empty()) return InvalidArgument("'map' needs a filter or an attribute");
      ASSIGN_OR_RETURN(item, CallByName(evaluator, given.positional[0], true, item, Behind(given, 1)));
    }
  }
  return Generator(std::move(items));
}

/// select, reject, selectattr, rejectattr.
template <bool kKeeps, bool kByAttribute>
Result<Value> Select(Evaluator& evaluator, const Value& self, const BoundArguments& arguments) {
  if (!self.Truth()) return Generator({});  // whatever its type
  ASSIGN_OR_RETURN(const std::vector<Value> items, ItemsOf(evaluator, self));
  const Arguments& given = arguments.given();
  constexpr size_t kTest = kByAttribute ? 1 : 0;
  if (kByAttribute && given.positional.empty())
    return InvalidArgument("'selectattr' and 'rejectattr' need an attribute");
  std::vector<Value> kept;
  for (const Value& item : items) {
    ASSIGN_OR_RETURN(Value value,
                     AttributeOf(evaluator, item, kByAttribute ? given.positional[0] : Value(Value::None{})));
    if (given.positional.size() > kTest) {
      ASSIGN_OR_RETURN(value, CallByName(evaluator, given.positional[kTest], false, value, Behind(given, kTest + 1)));
    }
    if (value.Truth() == kKeeps) kept.push_back(item);
  }
  return Generator(std::move(kept));
}

constexpr std::array kListFilters = {
    Builtin{"length", {}, Length},
    Builtin{"count", {}, Length},
    Builtin{"first", {}, End<true>},
    Builtin{"last", {}, End<false>},
    Builtin{"list", {}, ListOf},
    Builtin{"items", {}, Items},
    Builtin{"join", {"d", "attribute"}, JoinFilter},
    Builtin{"sort", {"reverse", "case_sensitive", "attribute"}, Sort},
    Builtin{"dictsort", {"case_sensitive", "by", "reverse"}, DictSort},
    Builtin{"min", {"case_sensitive", "attribute"}, Extreme<true>},
    Builtin{"max", {"case_sensitive", "attribute"}, Extreme<false>},
    Builtin{"unique", {"case_sensitive", "attribute"}, Unique},
    Builtin{"sum", {"attribute", "start"}, Sum},
    Builtin{"reverse", {}, Reverse},
    Builtin{"batch", {"!linecount", "fill_with"}, Batch},
    Builtin{"map", {"*"}, Map},
    Builtin{"select", {"*"}, Select<true, false>},
    Builtin{"reject", {"*"}, Select<false, false>},
    Builtin{"selectattr", {"*"}, Select<true, true>},
    Builtin{"rejectattr", {"*"}, Select<false, true>},
};

}  // namespace

std::span<const Builtin> ListFilters() { return kListFilters; }

}  // namespace ringside::jinja
