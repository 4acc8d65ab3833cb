#include "ws/json/json_value.h"

#include <unordered_map>

#include "base/json/json_reader.h"

namespace ringside {

const char* JsonValue::KindName() const {
  switch (kind()) {
    case Kind::kNull:
      return "null";
    case Kind::kBool:
      return "a boolean";
    case Kind::kInteger:
      return "an integer";
    case Kind::kNumber:
      return "a number";
    case Kind::kString:
      return "a string";
    case Kind::kArray:
      return "an array";
    case Kind::kObject:
      return "an object";
  }
  return "?";
}

const JsonValue* JsonValue::Find(std::string_view key) const {
  for (const Member& member : object()) {
    if (member.first == key) return member.second.is_null() ? nullptr : &member.second;
  }
  return nullptr;
}

class JsonBuilder final : public JsonHandler {
 public:
  JsonValue& root() { return root_; }

  bool Null() override {
    Place();
    return true;
  }
  bool Boolean(bool value) override { return Set(value); }
  bool Negative(int64_t value) override { return Set(value); }
  bool Unsigned(uint64_t value) override {
    if (value > static_cast<uint64_t>(INT64_MAX)) return Set(static_cast<double>(value));
    return Set(static_cast<int64_t>(value));
  }
  bool Number(double value, const std::string&) override { return Set(value); }
  bool String(std::string& value) override { return Set(std::move(value)); }
  bool OpenObject() override { return Open(Members()); }
  bool OpenArray() override { return Open(Values()); }
  bool CloseArray() override { return Close(); }
  bool CloseObject() override { return Close(); }
  bool Name(std::string& value) override {
    // Members keep the client's order; a repeated key is searched among this object's members only.
    Level& level = open_.back();
    Members& members = std::get<Members>(level.value->value_);
    const auto [at, fresh] = level.keys.emplace(value, members.size());
    level.member = at->second;
    if (fresh) {
      members.emplace_back(std::move(value), JsonValue());
    } else {
      members[level.member].second = JsonValue();
    }
    return true;
  }

 private:
  using Values = std::vector<JsonValue>;
  using Members = std::vector<JsonValue::Member>;
  struct Level {
    JsonValue* value;
    size_t member = 0;
    std::unordered_map<std::string, size_t> keys;
  };

  // Place of the next value.
  JsonValue& Place() {
    if (open_.empty()) return root_;
    Level& level = open_.back();
    if (level.value->is_object()) return std::get<Members>(level.value->value_)[level.member].second;
    return std::get<Values>(level.value->value_).emplace_back();
  }
  template <class T>
  bool Set(T value) {
    Place().value_ = std::move(value);
    return true;
  }
  template <class T>
  bool Open(T empty) {
    JsonValue& place = Place();
    place.value_ = std::move(empty);
    open_.push_back({&place, 0, {}});
    return true;
  }
  bool Close() {
    open_.pop_back();
    return true;
  }

  JsonValue root_;
  std::vector<Level> open_;  // pointers into parents stay valid: only the innermost container grows
};

Result<JsonValue> ParseJson(std::string_view text) {
  JsonBuilder builder;
  const JsonFault fault = ReadJson(text, {}, builder);
  if (fault.ok()) return std::move(builder.root());
  return InvalidArgument("The message is not valid JSON: " + fault.message, "", "invalid_json");
}

}  // namespace ringside
