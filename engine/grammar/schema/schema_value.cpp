#include "engine/grammar/schema/schema_value.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <numeric>

#include "base/limits.h"

namespace ringside {
namespace {

constexpr size_t kManyMembers = 16;  // minimum members of an object for an index

}  // namespace

// Handles SAX events, so that nesting uses the heap and not the stack.
class SchemaBuilder final : public nlohmann::json_sax<nlohmann::json> {
 public:
  explicit SchemaBuilder(GrammarBudget& budget) : budget_(budget) {}

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
    done.Index();
    return Put(std::move(done));
  }
  bool Put(SchemaValue value) {
    const size_t bytes = 2 * sizeof(SchemaValue::Member) + value.text_.size();  // a vector may be half empty
    if (!budget_.Spend(4) || !budget_.Hold(static_cast<int64_t>(bytes))) return false;
    if (open_.empty()) {
      root_ = std::move(value);
    } else if (open_.back().is_array()) {
      open_.back().items_.push_back(std::move(value));
    } else {
      open_.back().members_.emplace_back(std::move(keys_.back()), std::move(value));
    }
    return true;
  }

  GrammarBudget& budget_;
  std::vector<SchemaValue> open_;
  std::vector<std::string> keys_;
};

Result<SchemaValue> SchemaValue::Parse(std::string_view json, GrammarBudget& budget) {
  SchemaBuilder builder(budget);
  bool parsed = false;
  try {
    parsed = nlohmann::json::sax_parse(json.begin(), json.end(), &builder);
  } catch (const nlohmann::json::exception&) {
  }
  if (!budget.ok()) return budget.status();
  if (builder.too_deep_) {
    return InvalidArgument("The schema is nested deeper than " + std::to_string(limits::kMaxSchemaDepth) + " levels.");
  }
  if (!parsed) return InvalidArgument("The schema is not valid JSON.");
  return std::move(builder.root_);
}

void SchemaValue::Index() {
  if (members_.size() < kManyMembers) return;
  by_name_.resize(members_.size());
  std::iota(by_name_.begin(), by_name_.end(), 0u);
  std::ranges::stable_sort(by_name_, {}, [this](uint32_t i) -> const std::string& { return members_[i].first; });
}

const SchemaValue* SchemaValue::Find(std::string_view name) const {
  if (by_name_.empty()) {
    const auto found = std::ranges::find(members_, name, &Member::first);
    return found == members_.end() ? nullptr : &found->second;
  }
  const auto name_of = [this](uint32_t i) -> std::string_view { return members_[i].first; };
  const auto found = std::ranges::lower_bound(by_name_, name, {}, name_of);
  return found == by_name_.end() || name_of(*found) != name ? nullptr : &members_[*found].second;
}

std::string SchemaValue::Key() const {
  switch (kind_) {
    case Kind::kNull:
      return "null";
    case Kind::kBool:
      return boolean_ ? "true" : "false";
    case Kind::kNumber:
      return fmt::format("{}", number_ == 0 ? 0.0 : number_);
    case Kind::kString:
      return fmt::format("\"{}:{}", text_.size(), text_);
    case Kind::kArray: {
      std::string key = "[";
      for (const SchemaValue& item : items_) key += item.Key() + ',';
      return key + ']';
    }
    case Kind::kObject:
      break;
  }
  std::vector<std::string> members;
  for (const auto& [name, value] : members_)
    members.push_back(fmt::format("{}:{}={},", name.size(), name, value.Key()));
  std::ranges::sort(members);
  return fmt::format("{{{}}}", fmt::join(members, ""));
}

}  // namespace ringside
