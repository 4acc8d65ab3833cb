// Values of templates, with Python's semantics. Immutable, so copies share large contents; only namespaces, loops and
// macros have an identity, and are owned by their rendering.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "base/status.h"

namespace ringside::jinja {

inline constexpr int64_t kBytesAStep = 16;  // of text, which cost one step of work

struct Builtin;
struct SequenceValue;
struct MappingValue;
struct BoundBuiltin;

/// An object with an identity: a namespace, a loop, a macro. Lives as long as its rendering.
struct Object {
  virtual ~Object() = default;
};

class Value {
 public:
  struct Undefined {
    std::shared_ptr<const std::string> why;  // reason for errors on use; null = known elsewhere
  };
  struct None {};

  Value() = default;  // undefined
  Value(None) : data_(None{}) {}
  Value(bool value) : data_(value) {}
  Value(int64_t value) : data_(value) {}
  Value(double value) : data_(value) {}
  Value(std::string text) : data_(std::make_shared<const std::string>(std::move(text))) {}
  Value(std::string_view text) : Value(std::string(text)) {}
  Value(const char* text) : Value(std::string(text)) {}
  Value(Object* object) : data_(object) {}
  Value(std::shared_ptr<const SequenceValue> sequence) : data_(std::move(sequence)) {}
  Value(std::shared_ptr<const MappingValue> mapping) : data_(std::move(mapping)) {}
  Value(std::shared_ptr<const BoundBuiltin> callable) : data_(std::move(callable)) {}
  static Value UndefinedBecause(std::string why);

  bool IsUndefined() const { return std::holds_alternative<Undefined>(data_); }
  bool IsNone() const { return std::holds_alternative<None>(data_); }
  bool IsBool() const { return std::holds_alternative<bool>(data_); }
  /// False for a bool, unlike in Python.
  bool IsInteger() const { return std::holds_alternative<int64_t>(data_); }
  bool IsFloat() const { return std::holds_alternative<double>(data_); }
  bool IsNumber() const { return IsBool() || IsInteger() || IsFloat(); }
  bool IsText() const { return std::holds_alternative<std::shared_ptr<const std::string>>(data_); }

  /// REQUIRES: a bool or an integer.
  int64_t Integer() const { return IsBool() ? (std::get<bool>(data_) ? 1 : 0) : std::get<int64_t>(data_); }
  /// REQUIRES: a number.
  double Number() const { return IsFloat() ? std::get<double>(data_) : static_cast<double>(Integer()); }
  const std::string& Text() const { return *std::get<std::shared_ptr<const std::string>>(data_); }
  /// Null for other types.
  const SequenceValue* AsSequence() const { return Get<SequenceValue>(); }
  const MappingValue* AsMapping() const { return Get<MappingValue>(); }
  const BoundBuiltin* AsBuiltin() const { return Get<BoundBuiltin>(); }
  Object* AsObject() const { return std::holds_alternative<Object*>(data_) ? std::get<Object*>(data_) : nullptr; }

  /// Reason why the value is undefined.
  std::string Why() const;
  /// Python's type name: "str", "list", ...
  const char* TypeName() const;
  bool Truth() const;
  /// Cost in steps of visiting all parts.
  int64_t weight() const;
  /// Nesting depth of lists and dicts.
  int depth() const;

 private:
  template <class T>
  const T* Get() const {
    const auto* held = std::get_if<std::shared_ptr<const T>>(&data_);
    return held == nullptr ? nullptr : held->get();
  }

  std::variant<Undefined, None, bool, int64_t, double, std::shared_ptr<const std::string>,
               std::shared_ptr<const SequenceValue>, std::shared_ptr<const MappingValue>,
               std::shared_ptr<const BoundBuiltin>, Object*>
      data_;
};

/// Cached totals of the parts: a traversal may reach shared parts exponentially often.
struct Size {
  int64_t weight = 1;
  int depth = 1;
  void Add(const Value& part);
};

struct SequenceValue {
  enum class Kind : uint8_t {
    kList,
    kTuple,
    kView,       // a dict's keys(), values() or items()
    kGenerator,  // result of a list filter: without a length, and true even if empty
  };
  Kind kind = Kind::kList;
  std::vector<Value> items;
  Size size = {};

  bool indexed() const { return kind == Kind::kList || kind == Kind::kTuple; }
};

/// A dict in insertion order.
struct MappingValue {
  std::vector<std::pair<Value, Value>> entries;
  Size size = {};

  /// Null if the key is absent.
  const Value* Find(const Value& key) const;
};

/// A method with its object, or a function.
struct BoundBuiltin {
  const Builtin* builtin;
  Value self;
};

inline constexpr int kMaxValueDepth = 64;
/// ERRORS: kInvalidArgument above kMaxValueDepth nested lists or dicts.
Result<Value> MakeSequence(SequenceValue::Kind kind, std::vector<Value> items);
inline Result<Value> MakeList(std::vector<Value> items) {
  return MakeSequence(SequenceValue::Kind::kList, std::move(items));
}
/// True for values that can be dict keys: not lists or dicts.
bool IsKey(const Value& value);
/// A later value of a key replaces the earlier one in its place.
Result<Value> MakeMapping(std::vector<std::pair<Value, Value>> entries);

/// Python's ==.
bool Equal(const Value& a, const Value& b);
/// Python's <.
/// ERRORS: kInvalidArgument for incomparable values.
Result<bool> Less(const Value& a, const Value& b);

/// Python's str().
/// ERRORS: kInvalidArgument for macros, generators and the like.
Result<std::string> ToText(const Value& value);
/// Python's repr().
Result<std::string> Represent(const Value& value);
std::string FloatText(double value);

struct JsonStyle {
  std::string item_separator = ", ", key_separator = ": ";
  int64_t indent = -1;  // blanks per level; -1 = one line
  bool ascii = false, sort_keys = false;
};
/// Python's json.dumps().
Result<std::string> ToJson(const Value& value, const JsonStyle& style);

}  // namespace ringside::jinja
