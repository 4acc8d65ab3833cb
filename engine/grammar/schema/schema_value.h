// A JSON Schema as parsed JSON: members in source order, numbers as text, so that no digit is lost. Immutable after
// parsing.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/status.h"
#include "engine/grammar/grammar_budget.h"

namespace ringside {

class SchemaValue {
 public:
  enum class Kind { kNull, kBool, kNumber, kString, kArray, kObject };
  using Member = std::pair<std::string, SchemaValue>;

  /// ERRORS: kInvalidArgument for malformed JSON, or nesting deeper than limits::kMaxSchemaDepth; the budget's status
  /// once it is exhausted.
  static Result<SchemaValue> Parse(std::string_view json, GrammarBudget& budget);

  Kind kind() const { return kind_; }
  bool is_bool(bool value) const { return kind_ == Kind::kBool && boolean_ == value; }
  bool is_string() const { return kind_ == Kind::kString; }
  bool is_number() const { return kind_ == Kind::kNumber; }
  bool is_array() const { return kind_ == Kind::kArray; }
  bool is_object() const { return kind_ == Kind::kObject; }
  bool boolean() const { return boolean_; }
  /// A string's value, or a number as written.
  const std::string& text() const { return text_; }
  double number() const { return number_; }
  const std::vector<SchemaValue>& items() const { return items_; }
  const std::vector<Member>& members() const { return members_; }
  /// A member of an object, the first of several with the same name; nullptr if there is none.
  const SchemaValue* Find(std::string_view name) const;

  /// A canonical text: equal for values that JSON Schema considers equal, such as 1 and 1.0, or objects with members in
  /// another order.
  std::string Key() const;

 private:
  friend class SchemaBuilder;
  void Index();

  Kind kind_ = Kind::kNull;
  bool boolean_ = false;
  double number_ = 0;
  std::string text_;
  std::vector<SchemaValue> items_;
  std::vector<Member> members_;
  std::vector<uint32_t> by_name_;  // sorted index of a large object's members
};

}  // namespace ringside
