#include "engine/grammar/schema/number_range.h"

#include <algorithm>
#include <charconv>

namespace ringside {
namespace {

constexpr size_t kMaxDigits = 40;
constexpr uint32_t kWholeDigits = 15, kIntegerDigits = 18, kFractionDigits = 6;
constexpr size_t kExactDigits = 15;  // decimals that a double can distinguish

// Expressions for sets of unsigned decimals such as "12.5".
class DecimalWriter {
 public:
  explicit DecimalWriter(GrammarSource* source) : source_(*source) {}

  /// Up to `whole` digits before and, if any, `fraction` digits after the point.
  ExpressionId All(uint32_t whole, uint32_t fraction) {
    const ExpressionId digits = source_.Choice(
        {source_.Bytes("0"), source_.Sequence({Digit('1', '9'), source_.Repeat(Digit('0', '9'), 0, whole - 1)})});
    if (fraction == 0) return digits;
    return source_.Sequence({digits, source_.Optional(source_.Sequence({source_.Bytes("."), Some(1, fraction)}))});
  }

  ExpressionId AtLeast(const Decimal& low, bool excluded) {
    const auto length = static_cast<uint32_t>(low.whole.size());
    std::vector<ExpressionId> ways = {
        source_.Sequence({Digit('1', '9'), Some(length, kUnbounded), AnyFraction()}),
    };
    for (uint32_t i = 0; i < length; ++i) {
      if (low.whole[i] == '9') continue;
      ways.push_back(
          source_.Sequence({source_.Bytes(low.whole.substr(0, i)), Digit(static_cast<char>(low.whole[i] + 1), '9'),
                            Some(length - i - 1, length - i - 1), AnyFraction()}));
    }
    const ExpressionId beyond = source_.Sequence({Zeros(0), Digit('1', '9'), Some(0, kUnbounded)});
    const std::string same = low.whole + (low.fraction.empty() ? "" : "." + low.fraction);
    if (low.fraction.empty()) {
      ways.push_back(source_.Sequence(
          {source_.Bytes(same), excluded ? source_.Sequence({source_.Bytes("."), beyond}) : AnyFraction()}));
    } else {
      ways.push_back(source_.Sequence({source_.Bytes(same), excluded ? beyond : Some(0, kUnbounded)}));
    }
    for (size_t i = 0; i < low.fraction.size(); ++i) {
      if (low.fraction[i] == '9') continue;
      ways.push_back(source_.Sequence({source_.Bytes(low.whole + "." + low.fraction.substr(0, i)),
                                       Digit(static_cast<char>(low.fraction[i] + 1), '9'), Some(0, kUnbounded)}));
    }
    return source_.Choice(std::move(ways));
  }

  ExpressionId AtMost(const Decimal& high, bool excluded) {
    const auto length = static_cast<uint32_t>(high.whole.size());
    std::vector<ExpressionId> ways;
    if (length > 1) {
      ways.push_back(source_.Sequence({source_.Bytes("0"), AnyFraction()}));
      ways.push_back(source_.Sequence({Digit('1', '9'), Some(0, length - 2), AnyFraction()}));
    }
    for (uint32_t i = 0; i < length; ++i) {
      const char least = i == 0 && length > 1 ? '1' : '0';
      if (high.whole[i] <= least) continue;
      ways.push_back(
          source_.Sequence({source_.Bytes(high.whole.substr(0, i)), Digit(least, static_cast<char>(high.whole[i] - 1)),
                            Some(length - i - 1, length - i - 1), AnyFraction()}));
    }
    for (size_t i = 0; i < high.fraction.size(); ++i) {
      const std::string before = high.whole + "." + high.fraction.substr(0, i);
      ways.push_back(source_.Bytes(i == 0 ? high.whole : before));
      if (high.fraction[i] == '0') continue;
      ways.push_back(source_.Sequence(
          {source_.Bytes(before), Digit('0', static_cast<char>(high.fraction[i] - 1)), Some(0, kUnbounded)}));
    }
    if (!excluded && high.fraction.empty()) {
      ways.push_back(source_.Sequence(
          {source_.Bytes(high.whole), source_.Optional(source_.Sequence({source_.Bytes("."), Zeros(1)}))}));
    } else if (!excluded) {
      ways.push_back(source_.Sequence({source_.Bytes(high.whole + "." + high.fraction), Zeros(0)}));
    }
    return source_.Choice(std::move(ways));
  }

 private:
  ExpressionId Digit(char first, char last) {
    return source_.Characters({{static_cast<uint32_t>(first), static_cast<uint32_t>(last)}});
  }
  ExpressionId Some(uint32_t least, uint32_t most) { return source_.Repeat(Digit('0', '9'), least, most); }
  ExpressionId Zeros(uint32_t least) { return source_.Repeat(Digit('0', '0'), least, kUnbounded); }
  ExpressionId AnyFraction() { return source_.Optional(source_.Sequence({source_.Bytes("."), Some(1, kUnbounded)})); }

  GrammarSource& source_;
};

// Unsigned texts of the numbers from `low` to `high`, neither negative.
Result<ByteAutomaton> Magnitudes(const std::optional<NumberBound>& low, const std::optional<NumberBound>& high,
                                 uint32_t whole, uint32_t fraction, GrammarBudget& budget) {
  GrammarSource source(budget);
  DecimalWriter writer(&source);
  ASSIGN_OR_RETURN(ByteAutomaton out, ByteAutomaton::Of(source, writer.All(whole, fraction)));
  if (low) {
    ASSIGN_OR_RETURN(const ByteAutomaton above, ByteAutomaton::Of(source, writer.AtLeast(low->at, low->excluded)));
    ASSIGN_OR_RETURN(out, ByteAutomaton::And(out, above, budget));
  }
  if (high) {
    ASSIGN_OR_RETURN(const ByteAutomaton below, ByteAutomaton::Of(source, writer.AtMost(high->at, high->excluded)));
    ASSIGN_OR_RETURN(out, ByteAutomaton::And(out, below, budget));
  }
  return out;
}

}  // namespace

Result<Decimal> Decimal::Parse(std::string_view number) {
  Decimal out;
  out.negative = number.starts_with('-');
  if (out.negative) number.remove_prefix(1);
  int exponent = 0;
  const size_t e = number.find_first_of("eE");
  if (e != std::string_view::npos) {
    std::string_view digits = number.substr(e + 1);
    if (digits.starts_with('+')) digits.remove_prefix(1);
    const auto read = std::from_chars(digits.data(), digits.data() + digits.size(), exponent);
    if (read.ec != std::errc()) exponent = INT16_MAX;
    number = number.substr(0, e);
  }
  const size_t point = number.find('.');
  std::string digits(number.substr(0, point));
  auto whole = static_cast<int64_t>(digits.size()) + exponent;
  if (point != std::string_view::npos) digits += number.substr(point + 1);
  const auto most = static_cast<int64_t>(kMaxDigits);
  if (whole < -most || whole > most || digits.size() > kMaxDigits) {
    return InvalidArgument("The bound has too many digits.");
  }
  if (whole <= 0) {
    digits.insert(0, static_cast<size_t>(1 - whole), '0');
    whole = 1;
  }
  if (static_cast<size_t>(whole) > digits.size()) digits.resize(static_cast<size_t>(whole), '0');
  out.whole = digits.substr(0, static_cast<size_t>(whole));
  out.fraction = digits.substr(static_cast<size_t>(whole));
  out.whole.erase(0, std::min(out.whole.find_first_not_of('0'), out.whole.size() - 1));
  out.fraction.erase(out.fraction.find_last_not_of('0') + 1);
  if (out.zero()) out.negative = false;
  return out;
}

Result<ByteAutomaton> NumbersIn(const NumberRange& range, GrammarBudget& budget) {
  uint32_t whole = range.integers ? kIntegerDigits : kWholeDigits, fraction = range.integers ? 0 : kFractionDigits;
  for (const auto* bound : {&range.low, &range.high}) {
    if (!*bound) continue;
    const Decimal& at = (*bound)->at;
    whole = std::max(whole, static_cast<uint32_t>(at.whole.size()));
    if (range.integers) continue;
    fraction = std::max(fraction, static_cast<uint32_t>(at.fraction.size()));
    // A text above the bound that a parser rounds down to the bound would be invalid.
    if ((*bound)->excluded && at.whole.size() + fraction > kExactDigits) {
      return InvalidArgument("An exclusive bound has too many digits; use an inclusive one.");
    }
  }
  const auto mirrored = [](const std::optional<NumberBound>& bound) {
    std::optional<NumberBound> out = bound;
    if (out && !out->at.zero()) out->at.negative = !out->at.negative;
    return out;
  };
  const auto negative = [](const std::optional<NumberBound>& bound) { return bound && bound->at.negative; };
  // First zero and above, then negative numbers by magnitude.
  GrammarSource source(budget);
  std::vector<ExpressionId> signs;
  const auto add = [&](const char* sign, std::optional<NumberBound> low,
                       const std::optional<NumberBound>& high) -> Status {
    if (negative(high)) return Status::Ok();
    if (negative(low)) low.reset();
    if (*sign != '\0' && (!low || low->at.zero())) low = NumberBound{{}, true};  // there is no -0
    ASSIGN_OR_RETURN(ByteAutomaton numbers, Magnitudes(low, high, whole, fraction, budget));
    signs.push_back(source.Sequence({source.Bytes(sign), source.Automaton(std::move(numbers))}));
    return Status::Ok();
  };
  RETURN_IF_ERROR(add("", range.low, range.high));
  RETURN_IF_ERROR(add("-", mirrored(range.high), mirrored(range.low)));
  return ByteAutomaton::Of(source, source.Choice(std::move(signs)));
}

}  // namespace ringside
