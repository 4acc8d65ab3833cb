// Arithmetic, slices and % formatting as in Python, with 64-bit integers; overflow is an error.
#include <algorithm>
#include <cmath>

#include "session/chat/jinja/evaluator.h"
#include "session/chat/jinja/text.h"

namespace ringside::jinja {
namespace {

Status TooLarge() { return InvalidArgument("an integer exceeds 64 bits"); }

Result<Value> IntegerPower(int64_t base, int64_t exponent) {
  int64_t result = 1;
  while (exponent > 0) {
    if (exponent % 2 == 1 && __builtin_mul_overflow(result, base, &result)) return TooLarge();
    exponent /= 2;
    if (exponent > 0 && __builtin_mul_overflow(base, base, &base)) return TooLarge();
  }
  return Value(result);
}

Result<Value> ComputeIntegers(std::string_view sign, int64_t a, int64_t b) {
  int64_t result = 0;
  if (sign == "+" && !__builtin_add_overflow(a, b, &result)) return Value(result);
  if (sign == "-" && !__builtin_sub_overflow(a, b, &result)) return Value(result);
  if (sign == "*" && !__builtin_mul_overflow(a, b, &result)) return Value(result);
  if (sign == "**") return b < 0 ? Value(std::pow(static_cast<double>(a), static_cast<double>(b))) : IntegerPower(a, b);
  if (sign == "/" || sign == "//" || sign == "%") {
    if (b == 0) return InvalidArgument("division by zero");
    if (sign == "/") return Value(static_cast<double>(a) / static_cast<double>(b));
    if (b == -1) return sign == "%" ? Value(int64_t{0}) : ComputeIntegers("-", 0, a);
    const int64_t rest = a % b;
    const bool below = rest != 0 && (rest < 0) != (b < 0);  // Python rounds down, C++ to zero
    if (sign == "%") return Value(below ? rest + b : rest);
    return Value(a / b - (below ? 1 : 0));
  }
  return TooLarge();
}

Result<Value> ComputeFloats(std::string_view sign, double a, double b) {
  if (sign == "+") return Value(a + b);
  if (sign == "-") return Value(a - b);
  if (sign == "*") return Value(a * b);
  if (sign == "**") {
    const double power = std::pow(a, b);
    if (!std::isfinite(power) && std::isfinite(a) && std::isfinite(b)) return InvalidArgument("the power is undefined");
    return Value(power);
  }
  if (b == 0) return InvalidArgument("division by zero");
  if (sign == "/") return Value(a / b);
  double rest = std::fmod(a, b);
  if (rest != 0 && (rest < 0) != (b < 0)) rest += b;
  if (sign == "%") return Value(rest == 0 ? std::copysign(0.0, b) : rest);
  return Value(std::floor((a - rest) / b + 0.5));
}

Result<Value> Repeat(Evaluator& evaluator, const Value& value, int64_t times) {
  times = std::max<int64_t>(times, 0);
  const SequenceValue* sequence = value.AsSequence();
  const auto size = static_cast<int64_t>(sequence == nullptr ? value.Text().size() : sequence->items.size());
  int64_t all = 0;
  if (__builtin_mul_overflow(size, times, &all)) return InvalidArgument("a text or list is too long");
  if (sequence == nullptr) {
    RETURN_IF_ERROR(evaluator.SpendBytes(static_cast<size_t>(all)));
    std::string text;
    for (int64_t i = 0; size > 0 && i < times; ++i) text += value.Text();
    return Value(std::move(text));
  }
  RETURN_IF_ERROR(evaluator.Spend(all));
  std::vector<Value> items;
  for (int64_t i = 0; size > 0 && i < times; ++i)
    items.insert(items.end(), sequence->items.begin(), sequence->items.end());
  return MakeSequence(sequence->kind, std::move(items));
}

Result<Value> Join(Evaluator& evaluator, const Value& a, const Value& b) {
  if (a.IsText()) {
    RETURN_IF_ERROR(evaluator.SpendBytes(a.Text().size() + b.Text().size()));
    return Value(a.Text() + b.Text());
  }
  std::vector<Value> items = a.AsSequence()->items;
  const std::vector<Value>& more = b.AsSequence()->items;
  RETURN_IF_ERROR(evaluator.Spend(static_cast<int64_t>(items.size() + more.size())));
  items.insert(items.end(), more.begin(), more.end());
  return MakeSequence(a.AsSequence()->kind, std::move(items));
}

bool IsIndexed(const Value& value) { return value.AsSequence() != nullptr && value.AsSequence()->indexed(); }

Result<Value> Concatenate(Evaluator& evaluator, const Value& a, const Value& b) {
  RETURN_IF_ERROR(evaluator.Spend(a.weight() + b.weight()));
  ASSIGN_OR_RETURN(const std::string first, ToText(a));
  ASSIGN_OR_RETURN(const std::string second, ToText(b));
  RETURN_IF_ERROR(evaluator.SpendBytes(first.size() + second.size()));
  return Value(first + second);
}

/// As slice.indices(): first index and end. The bounds are integers or None.
struct SliceRange {
  int64_t begin, end, step;
};

Result<SliceRange> RangeOf(const Value& begin, const Value& end, const Value& step, int64_t size) {
  SliceRange range{0, 0, step.IsNone() ? 1 : step.Integer()};
  if (range.step == 0) return InvalidArgument("a slice's step is zero");
  const bool back = range.step < 0;
  const int64_t least = back ? -1 : 0, most = back ? size - 1 : size;
  const auto bound = [&](const Value& part, int64_t otherwise) {
    if (part.IsNone()) return otherwise;
    const int64_t at = part.Integer();
    return at < 0 ? std::max(at + size, least) : std::min(at, most);
  };
  range.begin = bound(begin, back ? most : least);
  range.end = bound(end, back ? least : most);
  return range;
}

}  // namespace

Result<Value> Compute(Evaluator& evaluator, std::string_view sign, const Value& a, const Value& b) {
  if (sign == "~") return Concatenate(evaluator, a, b);
  if (a.IsUndefined()) return InvalidArgument(a.Why());
  if (sign == "%" && a.IsText()) {
    const bool tuple = b.AsSequence() != nullptr && b.AsSequence()->kind == SequenceValue::Kind::kTuple;
    RETURN_IF_ERROR(evaluator.Spend(a.weight() + b.weight()));
    const bool all = tuple || b.IsText() || b.IsNumber() || b.IsNone();
    ASSIGN_OR_RETURN(std::string text,
                     FormatPercent(a.Text(), tuple ? b.AsSequence()->items : std::vector<Value>{b}, all));
    RETURN_IF_ERROR(evaluator.SpendBytes(text.size()));
    return Value(std::move(text));
  }
  if (b.IsUndefined()) return InvalidArgument(b.Why());
  if (a.IsNumber() && b.IsNumber()) {
    return a.IsFloat() || b.IsFloat() ? ComputeFloats(sign, a.Number(), b.Number())
                                      : ComputeIntegers(sign, a.Integer(), b.Integer());
  }
  const bool lists = IsIndexed(a) && IsIndexed(b) && a.AsSequence()->kind == b.AsSequence()->kind;
  if (sign == "+" && ((a.IsText() && b.IsText()) || lists)) return Join(evaluator, a, b);
  if (sign == "*") {
    const bool first = (a.IsText() || IsIndexed(a)) && (b.IsInteger() || b.IsBool());
    const bool second = (b.IsText() || IsIndexed(b)) && (a.IsInteger() || a.IsBool());
    if (first || second) return Repeat(evaluator, first ? a : b, first ? b.Integer() : a.Integer());
  }
  return InvalidArgument("'" + std::string(sign) + "' is not defined between " + a.TypeName() + " and " + b.TypeName());
}

Result<Value> SliceOf(Evaluator& evaluator, const Value& of, const Value& begin, const Value& end, const Value& step) {
  if (of.IsUndefined()) return InvalidArgument(of.Why());
  if (!of.IsText() && !IsIndexed(of)) {
    return InvalidArgument(std::string("a value of type ") + of.TypeName() + " has no slices");
  }
  for (const Value* part : {&begin, &end, &step}) {
    if (!part->IsNone() && !part->IsInteger() && !part->IsBool())
      return InvalidArgument("a slice bound must be an integer");
  }
  RETURN_IF_ERROR(evaluator.Spend(of.IsText() ? of.weight() : static_cast<int64_t>(of.AsSequence()->items.size()) / 8));
  const int64_t size = of.IsText() ? LengthOf(of.Text()) : static_cast<int64_t>(of.AsSequence()->items.size());
  ASSIGN_OR_RETURN(const SliceRange range, RangeOf(begin, end, step, size));
  const auto inside = [&](int64_t i) { return range.step > 0 ? i < range.end : i > range.end; };
  if (of.IsText() && range.step == 1) return Value(PartOf(of.Text(), range.begin, range.end));
  RETURN_IF_ERROR(evaluator.Spend(size));
  std::vector<Value> items;
  std::string text;
  const std::vector<std::string_view> characters =
      of.IsText() ? CharactersOf(of.Text()) : std::vector<std::string_view>();
  for (int64_t i = range.begin; inside(i);) {
    if (of.IsText()) {
      text += characters[static_cast<size_t>(i)];
    } else {
      items.push_back(of.AsSequence()->items[static_cast<size_t>(i)]);
    }
    if (__builtin_add_overflow(i, range.step, &i)) break;
  }
  if (of.IsText()) return Value(std::move(text));
  return MakeSequence(of.AsSequence()->kind, std::move(items));
}

Result<std::string> FormatPercent(std::string_view format, const std::vector<Value>& arguments, bool all) {
  std::string out;
  size_t used = 0;
  for (size_t i = 0; i < format.size(); ++i) {
    if (format[i] != '%') {
      out += format[i];
      continue;
    }
    size_t end = i + 1;
    while (end < format.size() && std::string_view("0123456789.-+ #").find(format[end]) != std::string_view::npos)
      ++end;
    const char kind = end < format.size() ? format[end] : '\0';
    const std::string spec(format.substr(i + 1, end - i - 1));
    i = end;
    if (kind == '%' && spec.empty()) {
      out += '%';
      continue;
    }
    if (used == arguments.size()) return InvalidArgument("too few values for the format string");
    const Value& value = arguments[used++];
    size_t digits = 0;  // at most three at once, which cannot overflow
    for (const char c : spec) {
      digits = c >= '0' && c <= '9' ? digits + 1 : 0;
      if (digits > 3) return InvalidArgument("the format's width is too large");
    }
    if (spec.size() > 8) return InvalidArgument("a format is too long");
    if ((kind == 's' || kind == 'r') && spec.empty()) {
      ASSIGN_OR_RETURN(const std::string text, kind == 's' ? ToText(value) : Represent(value));
      out += text;
    } else if (kind == 'd' && value.IsNumber()) {
      const double number = value.Number();
      if (!(std::abs(number) < 9e18)) return TooLarge();
      char text[1100];
      std::snprintf(text, sizeof(text), ("%" + spec + "lld").c_str(),
                    static_cast<long long>(value.IsFloat() ? static_cast<int64_t>(number) : value.Integer()));
      out += text;
    } else if ((kind == 'f' || kind == 'e' || kind == 'g') && value.IsNumber()) {
      char text[1400];
      std::snprintf(text, sizeof(text), ("%" + spec + kind).c_str(), value.Number());
      out += text;
    } else {
      return InvalidArgument("unsupported format specifier: '%" + spec + kind + "'");
    }
  }
  if (used < arguments.size() && all) {
    return InvalidArgument("too many values for the format string");
  }
  return out;
}

}  // namespace ringside::jinja
