// Exact ranges of numbers: their decimal texts as an automaton. Pure functions.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "base/status.h"
#include "engine/grammar/byte_automaton.h"

namespace ringside {

/// A JSON number without exponent: the digits before the point, at least one, without leading zeros, and those after
/// it, without trailing zeros.
struct Decimal {
  bool negative = false;
  std::string whole = "0", fraction;
  bool zero() const { return whole == "0" && fraction.empty(); }
  std::string text() const { return (negative ? "-" : "") + whole + "." + fraction; }
  /// ERRORS: kInvalidArgument for more than 40 digits.
  static Result<Decimal> Parse(std::string_view number);
};

struct NumberBound {
  Decimal at;
  bool excluded = false;  // exclusive bound
};

struct NumberRange {
  std::optional<NumberBound> low, high;
  bool integers = false;
};

/// The texts of the numbers in the range, without exponents: integers as such, others with up to 6 decimals, or with
/// the bounds' number of decimals. ERRORS: kInvalidArgument for a bound with too many digits, the budget's status once
/// it is exhausted.
Result<ByteAutomaton> NumbersIn(const NumberRange& range, GrammarBudget& budget);

}  // namespace ringside
