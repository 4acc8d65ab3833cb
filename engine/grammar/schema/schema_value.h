// A JSON Schema as parsed JSON: members in the order in which they were written, numbers as their own text, so that no
// digit is lost. Read-only after parsing.
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

  /// kInvalidArgument for what is no JSON, or nested deeper than limits::kMaxSchemaDepth; the budget's status once that
  /// is spent.
  static Result<SchemaValue> Parse(std::string_view json, GrammarBudget& budget);

  Kind kind() const { return kind_; }
  bool is_bool(bool value) const { return kind_ == Kind::kBool && boolean_ == value; }
  bool is_string() const { return kind_ == Kind::kString; }
  bool is_number() const { return kind_ == Kind::kNumber; }
  bool is_array() const { return kind_ == Kind::kArray; }
  bool is_object() const { return kind_ == Kind::kObject; }
  bool boolean() const { return boolean_; }
  /// A string's value, or a number as it was written.
  const std::string& text() const { return text_; }
  double number() const { return number_; }
  const std::vector<SchemaValue>& items() const { return items_; }
  const std::vector<Member>& members() const { return members_; }
  /// A member of an object, the first if several have the name; nullptr if it has none.
  const SchemaValue* Find(std::string_view name) const;

  /// A text that is equal for equal values, as JSON Schema compares them: 1 and 1.0 are, and the order of members does
  /// not matter.
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
  std::vector<uint32_t> by_name_;  // of many members, by their names
};

}  // namespace ringside
