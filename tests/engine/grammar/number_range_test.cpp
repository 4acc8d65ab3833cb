#include "engine/grammar/schema/number_range.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <random>

namespace ringside {
namespace {

NumberBound Bound(const std::string& text, bool excluded) { return {Decimal::Parse(text).value(), excluded}; }

TEST(NumberRange, Decimals) {
  const auto plain = [](const std::string& text) {
    const Decimal d = Decimal::Parse(text).value();
    return (d.negative ? "-" : "") + d.whole + (d.fraction.empty() ? "" : "." + d.fraction);
  };
  EXPECT_EQ(plain("0"), "0");
  EXPECT_EQ(plain("-0.0"), "0");
  EXPECT_EQ(plain("12.50"), "12.5");
  EXPECT_EQ(plain("1e3"), "1000");
  EXPECT_EQ(plain("1.5E-3"), "0.0015");
  EXPECT_EQ(plain("-123.456e1"), "-1234.56");
  EXPECT_EQ(plain("0.001e2"), "0.1");
  EXPECT_FALSE(Decimal::Parse("1e400").ok());
  EXPECT_FALSE(Decimal::Parse("1e99999999999").ok());
}

// Every integer around the bounds, against numeric comparison.
TEST(NumberRange, IntegersAreExact) {
  std::mt19937 random(11);
  for (int i = 0; i < 150; ++i) {
    const int64_t span = i % 3 == 0 ? 12 : i % 3 == 1 ? 300 : 12'000;
    const auto pick = [&] { return static_cast<int64_t>(random() % (2 * span + 1)) - span; };
    const int64_t low = pick(), high = pick();
    const bool has_low = random() % 4 != 0, has_high = random() % 4 != 0;
    const bool low_out = random() % 2 == 0, high_out = random() % 2 == 0;
    NumberRange range{.integers = true};
    if (has_low) range.low = Bound(std::to_string(low), low_out);
    if (has_high) range.high = Bound(std::to_string(high), high_out);
    GrammarBudget budget;
    const auto automaton = NumbersIn(range, budget);
    ASSERT_TRUE(automaton.ok()) << automaton.status().message();
    for (int j = 0; j < 300; ++j) {
      const int64_t n = j % 3 == 0 ? pick() : (j % 3 == 1 ? low : high) + static_cast<int64_t>(random() % 7) - 3;
      const bool inside =
          (!has_low || (low_out ? n > low : n >= low)) && (!has_high || (high_out ? n < high : n <= high));
      EXPECT_EQ(automaton->Accepts(std::to_string(n)), inside) << low << " " << high << " " << n;
    }
    EXPECT_FALSE(automaton->Accepts("-0"));
    EXPECT_FALSE(automaton->Accepts("01"));
    EXPECT_FALSE(automaton->Accepts("1.0"));
  }
}

TEST(NumberRange, DecimalsAreExact) {
  std::mt19937 random(12);
  // In thousandths, so that comparisons are exact.
  const auto pick = [&] { return static_cast<int64_t>(random() % 8001) - 4000; };
  const auto text = [](int64_t thousandths) {
    return fmt::format("{}{}.{:03}", thousandths < 0 ? "-" : "", std::abs(thousandths) / 1000,
                       std::abs(thousandths) % 1000);
  };
  for (int i = 0; i < 150; ++i) {
    const int64_t low = pick() / (i % 2 == 0 ? 1 : 100) * (i % 2 == 0 ? 1 : 100), high = pick();
    const bool low_out = random() % 2 == 0, high_out = random() % 2 == 0;
    NumberRange range;
    range.low = Bound(text(low), low_out);
    range.high = Bound(text(high), high_out);
    GrammarBudget budget;
    const auto automaton = NumbersIn(range, budget);
    ASSERT_TRUE(automaton.ok()) << automaton.status().message();
    for (int j = 0; j < 200; ++j) {
      int64_t n = j % 3 == 0 ? pick() : (j % 3 == 1 ? low : high) + static_cast<int64_t>(random() % 21) - 10;
      if (j % 5 == 0) n = n / 1000 * 1000;
      const bool inside = (low_out ? n > low : n >= low) && (high_out ? n < high : n <= high);
      std::string written = text(n);
      if (n == 0) written = "0.000";
      EXPECT_EQ(automaton->Accepts(written), inside) << text(low) << " " << text(high) << " " << written;
      // Without trailing zeros it is the same number.
      written.erase(written.find_last_not_of('0') + 1);
      if (written.back() == '.') written.pop_back();
      EXPECT_EQ(automaton->Accepts(written), inside) << text(low) << " " << text(high) << " " << written;
    }
  }
}

TEST(NumberRange, RefusesExclusiveBoundsWithManyDigits) {
  NumberRange range;
  range.low = Bound("12345678901.5", true);
  GrammarBudget budget;
  EXPECT_FALSE(NumbersIn(range, budget).ok());
  range.low->excluded = false;
  EXPECT_TRUE(NumbersIn(range, budget).ok());
}

}  // namespace
}  // namespace ringside
