#include "session/tools/argument_reader.h"

#include <optional>
#include <utility>

#include "base/check.h"
#include "engine/grammar/schema/json_text.h"
#include "session/tools/value_reader.h"

namespace ringside {
namespace {

using Form = ToolSyntax::Arguments::Form;

std::string WithoutNewlines(std::string_view markup) {
  std::string text(markup);
  std::erase(text, '\n');
  return text;
}

/// Arguments as a literal: Python keywords in parentheses, Gemma's braces.
class LiteralArguments final : public ArgumentReader {
 public:
  explicit LiteralArguments(Form form) : value_(form, /*arguments=*/true) {}

  Next Read(char c, std::string* json) override {
    switch (value_.Read(c, json)) {
      case ValueReader::Next::kMore:
        return Next::kMore;
      case ValueReader::Next::kDone:
        return Next::kDone;
      case ValueReader::Next::kBehind:
      case ValueReader::Next::kInvalidByte:
        break;
    }
    return Next::kInvalidByte;
  }

 private:
  ValueReader value_;
};

class TaggedArguments final : public ArgumentReader {
 public:
  TaggedArguments(const ToolSyntax& syntax, std::shared_ptr<const ParameterTypes> types, std::string_view tool)
      : before_key_(WithoutNewlines(syntax.arguments.before_key)),
        before_value_(WithoutNewlines(syntax.arguments.before_value)),
        before_json_(WithoutNewlines(syntax.arguments.before_json)),
        after_value_(WithoutNewlines(syntax.arguments.after_value)),
        after_arguments_(WithoutNewlines(syntax.after_arguments)),
        own_lines_(syntax.arguments.before_value.ends_with('\n')),
        types_(std::move(types)),
        tool_(tool),
        text_end_(after_value_) {}

  Next Read(char c, std::string* json) override {
    switch (state_) {
      case State::kBetween:
        return ReadBetween(c, json);
      case State::kKey:
        if (IsBareKey({&c, 1})) {
          key_ += c;
          return key_.size() <= kMaxKeyBytes ? Next::kMore : Next::kInvalidByte;
        }
        state_ = State::kBeforeValue;
        [[fallthrough]];
      case State::kBeforeValue:
        return ReadBeforeValue(c, json);
      case State::kText:
        return ReadText(c, json);
      case State::kJson:
        return ReadJson(c, json);
      case State::kAfterJson:
        return ReadAfterJson(c);
    }
    return Next::kInvalidByte;
  }

 private:
  enum class State : unsigned char { kBetween, kKey, kBeforeValue, kText, kJson, kAfterJson };

  /// An optional newline of markup.
  bool IsLoose(char c) const { return c == '\n' && (held_.empty() || held_.back() == '>'); }

  Next ReadBetween(char c, std::string* json) {
    if (IsLoose(c)) return Next::kMore;
    held_ += c;
    if (held_ == after_arguments_) {
      *json += '}';
      return Next::kDone;
    }
    if (held_ == before_key_) {
      held_.clear();
      key_.clear();
      state_ = State::kKey;
      return Next::kMore;
    }
    return before_key_.starts_with(held_) || after_arguments_.starts_with(held_) ? Next::kMore : Next::kInvalidByte;
  }

  Next ReadBeforeValue(char c, std::string* json) {
    if (key_.empty()) return Next::kInvalidByte;
    if (IsLoose(c) && !held_.empty()) return Next::kMore;
    held_ += c;
    if (!before_value_.starts_with(held_) && !before_json_.starts_with(held_)) return Next::kInvalidByte;
    if (held_ != before_value_ && held_ != before_json_) return Next::kMore;
    const bool untyped = types_ == nullptr || types_->IsText(tool_, key_);
    const bool text = before_json_.empty() ? untyped : held_ == before_value_;
    held_.clear();
    json->append(std::exchange(first_, false) ? "" : ", ").append(JsonString(key_)).append(": ");
    state_ = text ? State::kText : State::kJson;
    if (text) {
      *json += '"';
      newline_ = false;
      begun_ = false;
    } else {
      value_.emplace(Form::kJson);
    }
    return Next::kMore;
  }

  // If markup puts values on separate lines, one newline at each end of a value is markup.
  Next ReadText(char c, std::string* json) {
    const bool leading = !std::exchange(begun_, true) && own_lines_ && c == '\n';
    if (leading) return Next::kMore;
    std::string passed;
    const bool ends = text_end_.Read(c, &passed);
    for (const char byte : passed) {
      if (std::exchange(newline_, own_lines_ && byte == '\n')) AppendEscaped('\n', json);
      if (!newline_) AppendEscaped(byte, json);
    }
    if (!ends) return Next::kMore;
    *json += '"';
    state_ = State::kBetween;
    return Next::kMore;
  }

  Next ReadJson(char c, std::string* json) {
    const ValueReader::Next next = value_->Read(c, json);
    if (next == ValueReader::Next::kInvalidByte) return Next::kInvalidByte;
    if (next == ValueReader::Next::kMore) return Next::kMore;
    state_ = State::kAfterJson;
    return next == ValueReader::Next::kBehind ? ReadAfterJson(c) : Next::kMore;
  }

  Next ReadAfterJson(char c) {
    if (held_.empty() && (c == '\n' || c == ' ')) return Next::kMore;
    held_ += c;
    if (!after_value_.starts_with(held_)) return Next::kInvalidByte;
    if (held_ != after_value_) return Next::kMore;
    held_.clear();
    state_ = State::kBetween;
    return Next::kMore;
  }

  // markup without newlines
  const std::string before_key_, before_value_, before_json_, after_value_, after_arguments_;
  const bool own_lines_;  // of values
  const std::shared_ptr<const ParameterTypes> types_;
  const std::string tool_;
  State state_ = State::kBetween;
  std::string held_;  // incomplete markup
  std::string key_;
  bool first_ = true;     // no argument yet
  bool begun_ = false;    // text value: the first byte has been read
  bool newline_ = false;  // text value: the last byte was a newline, possibly markup
  EndFinder text_end_;
  std::optional<ValueReader> value_;
};

}  // namespace

std::unique_ptr<ArgumentReader> MakeArgumentReader(const ToolSyntax& syntax,
                                                   std::shared_ptr<const ParameterTypes> types, std::string_view tool) {
  CHECK(!syntax.has_json());
  if (syntax.arguments.form != Form::kTagged) return std::make_unique<LiteralArguments>(syntax.arguments.form);
  return std::make_unique<TaggedArguments>(syntax, std::move(types), tool);
}

}  // namespace ringside
