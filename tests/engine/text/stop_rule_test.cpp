// The stop rule: the first complete stop string ends the answer before it, however the text is split.
#include "engine/text/stop_rule.h"

#include <gtest/gtest.h>

#include <random>

namespace ringside {
namespace {

using Strings = std::vector<std::string>;

struct Outcome {
  std::string shown;
  bool stopped = false;
  std::string matched;
  bool operator==(const Outcome&) const = default;
};
std::ostream& operator<<(std::ostream& out, const Outcome& o) {
  return out << "'" << o.shown << "' " << o.stopped << " '" << o.matched << "'";
}

// Token ids are 1000 and up, so that no piece is a stop id.
Outcome AnswerOf(const Strings& stops, const Strings& pieces, int64_t min_tokens = 0) {
  StopRule rule(stops, {}, min_tokens);
  Outcome outcome;
  TokenId id = 1000;
  for (const std::string& piece : pieces) {
    StopRule::Verdict verdict = rule.Push(id++, piece);
    outcome.shown += verdict.text;
    if (verdict.stop) {
      outcome.stopped = true;
      outcome.matched = verdict.matched;
      return outcome;
    }
  }
  outcome.shown += rule.Finish();
  return outcome;
}

// The definition, over the whole text: the smallest end of any occurrence; among those the longest.
Outcome Naive(const Strings& stops, const std::string& text) {
  for (size_t end = 1; end <= text.size(); ++end) {
    std::string best;
    for (const std::string& stop : stops) {
      if (stop.empty() || stop.size() > end || stop.size() <= best.size()) continue;
      if (text.compare(end - stop.size(), stop.size(), stop) == 0) best = stop;
    }
    if (!best.empty()) return {text.substr(0, end - best.size()), true, best};
  }
  return {text, false, ""};
}

TEST(StopRule, WithoutRulesTextPassesAtOnce) {
  StopRule rule({}, {});
  EXPECT_EQ(rule.Push(1, "abc").text, "abc");
  EXPECT_EQ(rule.Finish(), "");
}

TEST(StopRule, MatchesAcrossTokenBorders) {
  EXPECT_EQ(AnswerOf({"\n\nUser:"}, {"Hello", "\n", "\nUs", "er", ":", " more"}),
            (Outcome{"Hello", true, "\n\nUser:"}));
  EXPECT_EQ(AnswerOf({"STOP"}, {"a STOP b"}), (Outcome{"a ", true, "STOP"}));
}

TEST(StopRule, HoldsBackOnlyPossibleMatches) {
  StopRule rule({"abcd"}, {});
  EXPECT_EQ(rule.Push(1, "xxab").text, "xx");
  EXPECT_EQ(rule.Push(2, "c").text, "");
  EXPECT_EQ(rule.Push(3, "ab").text, "abc");
  EXPECT_EQ(rule.Push(4, "y").text, "aby");
  EXPECT_EQ(rule.Push(5, "abc").text, "");
  EXPECT_EQ(rule.Finish(), "abc");
  EXPECT_EQ(rule.Finish(), "");
}

TEST(StopRule, FirstCompleteMatchWinsThenTheLongest) {
  EXPECT_EQ(AnswerOf({"abcd", "bc"}, {"abcd"}), (Outcome{"a", true, "bc"}));
  EXPECT_EQ(AnswerOf({"c", "abc", "bc"}, {"xabc"}), (Outcome{"x", true, "abc"}));
}

TEST(StopRule, FindsAMatchThatStartsInsideAFailedOne) {
  EXPECT_EQ(AnswerOf({"aab"}, {"aaa", "ab"}), (Outcome{"aa", true, "aab"}));
  EXPECT_EQ(AnswerOf({"abcabd"}, {"abcab", "cabd"}), (Outcome{"abc", true, "abcabd"}));
}

TEST(StopRule, EmptyStringsNeverMatch) { EXPECT_EQ(AnswerOf({""}, {"abc"}), (Outcome{"abc", false, ""})); }

TEST(StopRule, WorksOnMultiByteCharacters) {
  EXPECT_EQ(AnswerOf({"é!"}, {"caf", "é", "è", "é", "!"}), (Outcome{"caféè", true, "é!"}));
}

TEST(StopRule, StopIdsEndTheAnswerAndAreNotShown) {
  StopRule rule({"xyz"}, {7, 8});
  EXPECT_EQ(rule.Push(1, "ab x").text, "ab ");
  const auto verdict = rule.Push(8, "<end>");
  EXPECT_TRUE(verdict.stop);
  EXPECT_EQ(verdict.text, "x") << "what was held back is part of the answer";
  EXPECT_EQ(verdict.matched, "");
  EXPECT_EQ(rule.Finish(), "");
}

TEST(StopRule, IdsAreOffBelowMinTokens) {
  StopRule rule({}, {7}, 2);
  EXPECT_FALSE(rule.Push(7, "a").stop);
  EXPECT_FALSE(rule.Push(7, "b").stop);
  EXPECT_TRUE(rule.Push(7, "c").stop);
}

TEST(StopRule, StringsCompleteBelowMinTokensDoNotStop) {
  EXPECT_EQ(AnswerOf({"ab"}, {"ab", "ab", "ab"}, 0), (Outcome{"", true, "ab"}));
  EXPECT_EQ(AnswerOf({"ab"}, {"ab", "ab", "ab"}, 2), (Outcome{"ab", true, "ab"}));
  EXPECT_EQ(AnswerOf({"ab"}, {"ab", "ab", "ab"}, 3), (Outcome{"abab", true, "ab"}));
  // A match that starts before the minimum and is completed after it counts; no part was shown.
  EXPECT_EQ(AnswerOf({"abcd"}, {"xab", "c", "d"}, 3), (Outcome{"x", true, "abcd"}));
  // A match that did not count may overlap one that does.
  EXPECT_EQ(AnswerOf({"aa"}, {"aa", "a"}, 2), (Outcome{"a", true, "aa"}));
}

TEST(StopRule, MatchesASearchOfTheWholeText) {
  std::mt19937 generator(17);
  const auto random_text = [&](size_t longest) {
    std::string text(generator() % (longest + 1), ' ');
    for (char& c : text) c = static_cast<char>('a' + generator() % 3);
    return text;
  };
  int stopped = 0;
  for (int round = 0; round < 20000; ++round) {
    Strings stops(generator() % 5);
    for (std::string& stop : stops) stop = random_text(8);
    const std::string text = random_text(60);
    Strings pieces;
    for (size_t at = 0; at < text.size();) {
      const size_t length = generator() % 7;  // including empty pieces
      pieces.push_back(text.substr(at, length));
      at += length;
    }
    const Outcome expected = Naive(stops, text);
    ASSERT_EQ(AnswerOf(stops, pieces), expected) << text;
    stopped += expected.stopped;
  }
  EXPECT_GT(stopped, 2000);
  EXPECT_LT(stopped, 19000);
}

TEST(StopRule, HoldsBackLessThanTheLongestStopString) {
  std::mt19937 generator(18);
  StopRule rule({"aabaab", "abab"}, {});
  std::string given, shown;
  for (int i = 0; i < 5000; ++i) {
    const std::string piece(1, static_cast<char>('a' + generator() % 2));
    const auto verdict = rule.Push(1, piece);
    given += piece;
    shown += verdict.text;
    if (verdict.stop) {
      rule = StopRule({"aabaab", "abab"}, {});
      given = shown = "";
      continue;
    }
    ASSERT_LE(given.size() - shown.size(), 5u);
    ASSERT_EQ(given.compare(0, shown.size(), shown), 0);
  }
}

}  // namespace
}  // namespace ringside
