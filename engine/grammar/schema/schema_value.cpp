#include "engine/grammar/schema/schema_value.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "base/json/json_reader.h"
#include "base/limits.h"

namespace ringside {
namespace {

constexpr size_t kManyMembers = 16;  // minimum members of an object for an index

}  // namespace

class SchemaBuilder final : public JsonHandler {
 public:
  explicit SchemaBuilder(GrammarBudget& budget) : budget_(budget) {}

  bool Null() override { return Put({}); }
  bool Boolean(bool value) override {
    SchemaValue out;
    out.kind_ = SchemaValue::Kind::kBool;
    out.boolean_ = value;
    return Put(std::move(out));
  }
  bool Negative(int64_t value) override { return Number(static_cast<double>(value), std::to_string(value)); }
  bool Unsigned(uint64_t value) override { return Number(static_cast<double>(value), std::to_string(value)); }
  bool Number(double value, const std::string& text) override {
    SchemaValue out;
    out.kind_ = SchemaValue::Kind::kNumber;
    out.number_ = value;
    out.text_ = text;
    return Put(std::move(out));
  }
  bool String(std::string& value) override {
    SchemaValue out;
    out.kind_ = SchemaValue::Kind::kString;
    out.text_ = std::move(value);
    return Put(std::move(out));
  }
  bool OpenObject() override { return Open(SchemaValue::Kind::kObject); }
  bool OpenArray() override { return Open(SchemaValue::Kind::kArray); }
  bool CloseObject() override { return Close(); }
  bool CloseArray() override { return Close(); }
  bool Name(std::string& name) override {
    keys_.back() = std::move(name);
    return true;
  }

  SchemaValue root_;

 private:
  bool Open(SchemaValue::Kind kind) {
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
  const JsonFault fault = ReadJson(json, {.depth = limits::kMaxSchemaDepth}, builder);
  if (!budget.ok()) return budget.status();
  if (fault.kind == JsonFault::Kind::kSyntax) return InvalidArgument("The schema is not valid JSON.");
  const char* verb = fault.kind == JsonFault::Kind::kValues ? "has " : "is ";
  if (!fault.ok()) return InvalidArgument("The schema " + (verb + fault.message) + ".");
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
