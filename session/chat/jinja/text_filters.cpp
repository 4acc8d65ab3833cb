// Filters that make texts and numbers.
#include <array>
#include <charconv>
#include <cmath>

#include "session/chat/jinja/builtins.h"
#include "session/chat/jinja/evaluator.h"
#include "session/chat/jinja/text.h"

namespace ringside::jinja {
namespace {

constexpr int64_t kMaxDigits = 300;

/// The text that a filter works on; it is paid for.
Result<std::string> TextOf(Evaluator& evaluator, const Value& value) {
  RETURN_IF_ERROR(evaluator.Spend(2 * value.weight()));
  return ToText(value);
}

template <std::string (*kOf)(std::string_view)>
Result<Value> MappedText(Evaluator& evaluator, const Value& self, const BoundArguments&) {
  ASSIGN_OR_RETURN(const std::string text, TextOf(evaluator, self));
  return Value(kOf(text));
}

std::string Unchanged(std::string_view text) { return std::string(text); }

std::string Escaped(std::string_view text) {
  std::string out;
  for (const char c : text) {
    constexpr std::string_view kSigns = "&<>'\"";
    static constexpr const char* kNames[] = {"&amp;", "&lt;", "&gt;", "&#39;", "&#34;"};
    const size_t at = kSigns.find(c);
    at == kSigns.npos ? out += c : out += kNames[at];
  }
  return out;
}

Result<Value> TrimFilter(Evaluator& evaluator, const Value& self, const BoundArguments& arguments) {
  ASSIGN_OR_RETURN(const std::string text, TextOf(evaluator, self));
  const Value characters = arguments.Get(0, Value::None{});
  if (characters.IsNone()) return Value(Strip(text));
  if (!characters.IsText()) return InvalidArgument("the argument of 'trim' must be a string");
  return Value(StripRight(StripLeft(text, characters.Text()), characters.Text()));
}

Result<Value> Replace(Evaluator& evaluator, const Value& self, const BoundArguments& arguments) {
  ASSIGN_OR_RETURN(const std::string text, TextOf(evaluator, self));
  ASSIGN_OR_RETURN(const std::string from, TextOf(evaluator, arguments.Get(0)));
  ASSIGN_OR_RETURN(const std::string to, TextOf(evaluator, arguments.Get(1)));
  const Value count = arguments.Get(2, Value::None{});
  if (!count.IsNone() && !count.IsInteger()) return InvalidArgument("'replace' takes a count");
  const int64_t most = count.IsNone() || count.Integer() < 0 ? kNoLimit : count.Integer();
  RETURN_IF_ERROR(evaluator.SpendBytes(text.size() + static_cast<size_t>(CountOf(text, from)) * to.size()));
  return Value(ReplaceIn(text, from, to, most));
}

Result<Value> Indent(Evaluator& evaluator, const Value& self, const BoundArguments& arguments) {
  if (!self.IsText()) return InvalidArgument(self.IsUndefined() ? self.Why() : "'indent' takes a text");
  std::string text = self.Text();
  const Value width = arguments.Get(0, int64_t{4});
  if (!width.IsText() && !width.IsInteger()) return InvalidArgument("'indent' takes a width");
  if (width.IsInteger())
    RETURN_IF_ERROR(evaluator.SpendBytes(static_cast<size_t>(std::max<int64_t>(width.Integer(), 0))));
  const std::string blanks =
      width.IsText() ? width.Text() : std::string(static_cast<size_t>(std::max<int64_t>(width.Integer(), 0)), ' ');
  text += '\n';
  const std::vector<std::string_view> lines = LinesOf(text, false);
  RETURN_IF_ERROR(evaluator.SpendBytes(text.size() + lines.size() * (blanks.size() + 1)));
  std::string out = arguments.Get(1, false).Truth() ? blanks : "";
  for (size_t i = 0; i < lines.size(); ++i) {
    if (i > 0) out += '\n';
    if (i > 0 && (!lines[i].empty() || arguments.Get(2, false).Truth())) out += blanks;
    out += lines[i];
  }
  return Value(std::move(out));
}

Result<Value> Center(Evaluator& evaluator, const Value& self, const BoundArguments& arguments) {
  ASSIGN_OR_RETURN(const std::string text, TextOf(evaluator, self));
  const Value width = arguments.Get(0, int64_t{80});
  if (!width.IsInteger()) return InvalidArgument("'center' takes a width");
  const int64_t missing = width.Integer() - LengthOf(text);
  if (missing <= 0) return Value(text);
  RETURN_IF_ERROR(evaluator.SpendBytes(text.size() + static_cast<size_t>(missing)));
  const int64_t left = missing / 2 + (missing & width.Integer() & 1);
  return Value(std::string(static_cast<size_t>(left), ' ') + text +
               std::string(static_cast<size_t>(missing - left), ' '));
}

Result<Value> Format(Evaluator& evaluator, const Value& self, const BoundArguments& arguments) {
  ASSIGN_OR_RETURN(const std::string format, TextOf(evaluator, self));
  if (!arguments.given().keywords.empty()) return InvalidArgument("'format' does not support keyword arguments");
  for (const Value& value : arguments.given().positional) RETURN_IF_ERROR(evaluator.Spend(value.weight()));
  ASSIGN_OR_RETURN(std::string text, FormatPercent(format, arguments.given().positional, true));
  RETURN_IF_ERROR(evaluator.SpendBytes(text.size()));
  return Value(std::move(text));
}

Result<Value> ToJsonFilter(Evaluator& evaluator, const Value& self, const BoundArguments& arguments) {
  constexpr int64_t kMostIndent = 64;
  JsonStyle style;
  style.ascii = arguments.Get(0, false).Truth();
  const Value indent = arguments.Get(1, Value::None{}), separators = arguments.Get(2, Value::None{});
  if (!indent.IsNone()) {
    if (!indent.IsInteger() || indent.Integer() > kMostIndent)
      return InvalidArgument("'tojson' accepts an indent of at most 64");
    style.indent = std::max<int64_t>(indent.Integer(), 0);
    style.item_separator = ",";
  }
  if (!separators.IsNone()) {
    const SequenceValue* two = separators.AsSequence();
    if (two == nullptr || two->items.size() != 2 || !two->items[0].IsText() || !two->items[1].IsText()) {
      return InvalidArgument("'tojson' requires two separators");
    }
    style.item_separator = two->items[0].Text();
    style.key_separator = two->items[1].Text();
  }
  style.sort_keys = arguments.Get(3, false).Truth();
  const size_t each = style.item_separator.size() + style.key_separator.size() + 1 +
                      static_cast<size_t>(std::max<int64_t>(style.indent, 0)) * kMaxValueDepth;
  const int64_t elements = self.weight();
  if (elements > (int64_t{1} << 40)) return InvalidArgument("the output of 'tojson' would be too long");
  RETURN_IF_ERROR(evaluator.Spend(elements));
  RETURN_IF_ERROR(
      evaluator.SpendBytes(self.depth() == 0 ? 0 : static_cast<size_t>(elements) * (each > 64 ? each / 8 : 1)));
  ASSIGN_OR_RETURN(std::string text, ToJson(self, style));
  RETURN_IF_ERROR(evaluator.SpendBytes(text.size()));
  return Value(std::move(text));
}

Result<Value> ToInteger(Evaluator& evaluator, const Value& self, const BoundArguments& arguments) {
  const Value fallback = arguments.Get(0, int64_t{0});
  if (!Equal(arguments.Get(1, int64_t{10}), Value(int64_t{10}))) return InvalidArgument("'int' supports base 10 only");
  if (self.IsUndefined()) return InvalidArgument(self.Why());
  if (self.IsInteger() || self.IsBool()) return Value(self.Integer());
  double number = 0;
  if (self.IsText()) {
    RETURN_IF_ERROR(evaluator.Spend(self.weight()));
    std::string_view text = Strip(self.Text());
    if (text.starts_with('+')) text.remove_prefix(1);
    int64_t whole = 0;
    const char* const end = text.data() + text.size();
    const auto read = std::from_chars(text.data(), end, whole);
    if (read.ptr == end && read.ec == std::errc()) return Value(whole);
    if (std::from_chars(text.data(), end, number).ptr != end || text.empty()) return fallback;
  } else if (self.IsFloat()) {
    number = self.Number();
  } else {
    return fallback;
  }
  if (!std::isfinite(number)) return fallback;
  if (std::abs(number) >= 9.2e18) return InvalidArgument("an integer exceeds 64 bits");
  return Value(static_cast<int64_t>(number));
}

Result<Value> ToFloat(Evaluator& evaluator, const Value& self, const BoundArguments& arguments) {
  if (self.IsUndefined()) return InvalidArgument(self.Why());
  if (self.IsNumber()) return Value(self.Number());
  double number = 0;
  if (!self.IsText()) return arguments.Get(0, 0.0);
  RETURN_IF_ERROR(evaluator.Spend(self.weight()));
  std::string_view text = Strip(self.Text());
  if (text.starts_with('+')) text.remove_prefix(1);
  const auto read = std::from_chars(text.data(), text.data() + text.size(), number);
  return read.ec == std::errc() && read.ptr == text.data() + text.size() ? Value(number) : arguments.Get(0, 0.0);
}

Result<Value> Absolute(Evaluator& evaluator, const Value& self, const BoundArguments&) {
  if (!self.IsNumber()) return InvalidArgument(self.IsUndefined() ? self.Why() : "'abs' takes a number");
  if (self.IsFloat()) return Value(std::abs(self.Number()));
  return self.Integer() < 0 ? Compute(evaluator, "-", Value(int64_t{0}), self) : Value(self.Integer());
}

Result<Value> Round(Evaluator&, const Value& self, const BoundArguments& arguments) {
  const Value precision = arguments.Get(0, int64_t{0}), method = arguments.Get(1, "common");
  if (!self.IsNumber() || !precision.IsInteger())
    return InvalidArgument(self.IsUndefined() ? self.Why() : "'round' takes numbers");
  if (std::abs(precision.Number()) > kMaxDigits) return InvalidArgument("'round' takes at most 300 digits");
  const double scale = std::pow(10.0, precision.Number());
  if (Equal(method, "ceil")) return Value(std::ceil(self.Number() * scale) / scale);
  if (Equal(method, "floor")) return Value(std::floor(self.Number() * scale) / scale);
  if (!Equal(method, "common")) return InvalidArgument("'round' supports common, ceil and floor");
  if (!self.IsFloat() && precision.Integer() >= 0) return Value(self.Integer());
  if (precision.Integer() < 0 || !std::isfinite(self.Number()))
    return Value(std::nearbyint(self.Number() * scale) / scale);
  char text[700];  // printing rounds as Python does: the exact value to the nearest, halves to even
  std::snprintf(text, sizeof(text), "%.*f", static_cast<int>(precision.Integer()), self.Number());
  return Value(std::strtod(text, nullptr));
}

Result<Value> Default(Evaluator&, const Value& self, const BoundArguments& arguments) {
  const bool falls = self.IsUndefined() || (arguments.Get(1, false).Truth() && !self.Truth());
  return falls ? arguments.Get(0, "") : self;
}

constexpr std::array kTextFilters = {
    Builtin{"upper", {}, MappedText<UpperOf>},
    Builtin{"lower", {}, MappedText<LowerOf>},
    Builtin{"title", {}, MappedText<TitleByBlanks>},
    Builtin{"capitalize", {}, MappedText<CapitalisedOf>},
    Builtin{"string", {}, MappedText<Unchanged>},
    Builtin{"safe", {}, MappedText<Unchanged>},
    Builtin{"escape", {}, MappedText<Escaped>},
    Builtin{"e", {}, MappedText<Escaped>},
    Builtin{"trim", {"chars"}, TrimFilter},
    Builtin{"replace", {"!old", "!new", "count"}, Replace},
    Builtin{"indent", {"width", "first", "blank"}, Indent},
    Builtin{"center", {"width"}, Center},
    Builtin{"format", {"*"}, Format},
    Builtin{"tojson", {"ensure_ascii", "indent", "separators", "sort_keys"}, ToJsonFilter},
    Builtin{"int", {"default", "base"}, ToInteger},
    Builtin{"float", {"default"}, ToFloat},
    Builtin{"abs", {}, Absolute},
    Builtin{"round", {"precision", "method"}, Round},
    Builtin{"default", {"default_value", "boolean"}, Default},
    Builtin{"d", {"default_value", "boolean"}, Default},
};

}  // namespace

std::span<const Builtin> TextFilters() { return kTextFilters; }

}  // namespace ringside::jinja
