#include "engine/grammar/schema/schema_value.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/limits.h"

namespace ringside {

// Takes the parser's events; the parser's own stack is on the heap.
class SchemaBuilder final : public nlohmann::json_sax<nlohmann::json> {
 public:
  bool null() override { return Put({}); }
  bool boolean(bool value) override {
    SchemaValue out;
    out.kind_ = SchemaValue::Kind::kBool;
    out.boolean_ = value;
    return Put(std::move(out));
  }
  bool number_integer(number_integer_t value) override {
    return Number(static_cast<double>(value), std::to_string(value));
  }
  bool number_unsigned(number_unsigned_t value) override {
    return Number(static_cast<double>(value), std::to_string(value));
  }
  bool number_float(number_float_t value, const string_t& text) override { return Number(value, text); }
  bool string(string_t& value) override {
    SchemaValue out;
    out.kind_ = SchemaValue::Kind::kString;
    out.text_ = std::move(value);
    return Put(std::move(out));
  }
  bool binary(binary_t&) override { return false; }
  bool start_object(size_t) override { return Open(SchemaValue::Kind::kObject); }
  bool start_array(size_t) override { return Open(SchemaValue::Kind::kArray); }
  bool end_object() override { return Close(); }
  bool end_array() override { return Close(); }
  bool key(string_t& name) override {
    keys_.back() = std::move(name);
    return true;
  }
  bool parse_error(size_t, const std::string&, const nlohmann::detail::exception&) override { return false; }

  SchemaValue root_;
  bool too_deep_ = false;

 private:
  bool Number(double value, std::string text) {
    SchemaValue out;
    out.kind_ = SchemaValue::Kind::kNumber;
    out.number_ = value;
    out.text_ = std::move(text);
    return Put(std::move(out));
  }
  bool Open(SchemaValue::Kind kind) {
    too_deep_ = open_.size() >= static_cast<size_t>(limits::kMaxSchemaDepth);
    if (too_deep_) return false;
    SchemaValue out;
    out.kind_ = kind;
    open_.push_back(std::move(out));
    keys_.emplace_back();
    return true;
  }
  bool Close() {
    SchemaValue done = std::move(open_.back());
    open_.pop_back();
    keys_.pop_back();
    return Put(std::move(done));
  }
  bool Put(SchemaValue value) {
    if (open_.empty()) {
      root_ = std::move(value);
    } else if (open_.back().is_array()) {
      open_.back().items_.push_back(std::move(value));
    } else {
      open_.back().members_.emplace_back(std::move(keys_.back()), std::move(value));
    }
    return true;
  }

  std::vector<SchemaValue> open_;
  std::vector<std::string> keys_;
};

Result<SchemaValue> SchemaValue::Parse(std::string_view json) {
  SchemaBuilder builder;
  bool parsed = false;
  try {
    parsed = nlohmann::json::sax_parse(json.begin(), json.end(), &builder);
  } catch (const nlohmann::json::exception&) {
  }
  if (builder.too_deep_) {
    return InvalidArgument("The schema is nested deeper than " + std::to_string(limits::kMaxSchemaDepth) + " levels.");
  }
  if (!parsed) return InvalidArgument("The schema is not valid JSON.");
  return std::move(builder.root_);
}

const SchemaValue* SchemaValue::Find(std::string_view name) const {
  const auto found = std::ranges::find(members_, name, &Member::first);
  return found == members_.end() ? nullptr : &found->second;
}

bool operator==(const SchemaValue& a, const SchemaValue& b) {
  if (a.kind_ != b.kind_) return false;
  switch (a.kind_) {
    case SchemaValue::Kind::kNull:
      return true;
    case SchemaValue::Kind::kBool:
      return a.boolean_ == b.boolean_;
    case SchemaValue::Kind::kNumber:
      return a.number_ == b.number_;
    case SchemaValue::Kind::kString:
      return a.text_ == b.text_;
    case SchemaValue::Kind::kArray:
      return a.items_ == b.items_;
    case SchemaValue::Kind::kObject:
      return a.members_.size() == b.members_.size() && std::ranges::all_of(a.members_, [&](const auto& member) {
               const SchemaValue* other = b.Find(member.first);
               return other != nullptr && *other == member.second;
             });
  }
  return false;
}

}  // namespace ringside
