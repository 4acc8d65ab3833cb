// Ignored request fields: collected, reported and logged, within fixed limits.
#include "ws/fields/ignored_fields.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ws/fields/ignored_log.h"
#include "ws/fields/ignored_report.h"

namespace ringside {
namespace {

using ::testing::ElementsAre;

JsonValue Parsed(std::string_view text) { return ParseJson(text).value(); }

TEST(IgnoredFieldsTest, ReportsNamesOnceForAnyIndex) {
  IgnoredFields ignored;
  EXPECT_TRUE(ignored.Unknown("colour").ok());
  EXPECT_TRUE(ignored.Unknown("messages[0].mood").ok());
  EXPECT_TRUE(ignored.Unknown("messages[17].mood").ok());
  EXPECT_TRUE(ignored.Hint("text.verbosity", "a verbosity").ok());
  EXPECT_TRUE(ignored.HintUnlessEmpty(Parsed("[]"), "annotations").ok());
  EXPECT_TRUE(ignored.HintUnlessEmpty(Parsed("[1]"), "citations").ok());
  EXPECT_THAT(ignored.names(), ElementsAre("colour", "messages[0].mood", "text.verbosity", "citations"));
}

TEST(IgnoredFieldsTest, StrictRefusesInsteadOfReporting) {
  IgnoredFields ignored(/*strict=*/true);
  EXPECT_EQ(ignored.Unknown("colour").reason(), "unknown_parameter");
  EXPECT_EQ(ignored.Unknown("colour").param(), "colour");
  EXPECT_EQ(ignored.Hint("verbosity", "a verbosity").reason(), "unsupported_value");
  EXPECT_TRUE(ignored.names().empty());
}

TEST(IgnoredFieldsTest, LimitsNumberAndLengthOfNames) {
  IgnoredFields ignored;
  EXPECT_TRUE(ignored.Unknown(std::string(1 << 20, 'x')).ok());
  for (int i = 0; i < 10'000; ++i) EXPECT_TRUE(ignored.Unknown("f" + std::to_string(i)).ok());
  EXPECT_EQ(ignored.names().size(), kMaxIgnoredNames + 1);
  EXPECT_EQ(ignored.names().front().size(), kMaxIgnoredNameBytes);
  EXPECT_EQ(ignored.names().back(), "...");
}

TEST(IgnoredReportTest, HeaderIsShortAndPrintable) {
  const SessionTableOptions options;
  EXPECT_TRUE(Reported({}, options, {}, {}).headers.empty());
  const HttpResponse answer = Reported({}, options, {}, {"a", "b\r\nSet-Cookie: x", "caf\xC3\xA9,\"\\"});
  ASSERT_EQ(answer.headers.size(), 1u);
  EXPECT_EQ(answer.headers[0].first, "X-Ringside-Ignored");
  EXPECT_EQ(answer.headers[0].second, "a, b__Set-Cookie:_x, caf_____");
  const std::vector<std::string> many(kMaxIgnoredNames, std::string(kMaxIgnoredNameBytes, 'x'));
  EXPECT_LE(Reported({}, options, {}, many).headers[0].second.size(), 2048u);
}

TEST(IgnoredReportTest, RecordsEveryNameForItsOwner) {
  SessionTableOptions options;
  std::vector<std::string> noted;
  options.on_ignored = [&](const std::string& owner, const std::string& field) {
    noted.push_back(owner + ":" + field);
  };
  HttpRequest request;
  request.principal = "me";
  (void)Reported({}, options, request, {"a\nb", "c"});
  EXPECT_THAT(noted, ElementsAre("me:a_b", "me:c"));
}

TEST(IgnoredLogTest, LogsOnlyNamesThatLookLikeFields) {
  for (const std::string name : {"verbosity", "tools[1].web_search_20250305", "prompt-cache.key"}) {
    EXPECT_EQ(LoggedName(name), name);
  }
  for (const std::string& name : {std::string(), std::string("Albatross"), std::string("a b"), std::string("a\nb"),
                                  std::string("caf\xC3\xA9"), std::string(65, 'a')}) {
    EXPECT_EQ(LoggedName(name), "?");
  }
}

TEST(IgnoredLogTest, LogsOneLinePerOwnerAndField) {
  IgnoredLog log;
  EXPECT_TRUE(log.IsNew("a", "verbosity"));
  EXPECT_FALSE(log.IsNew("a", "verbosity"));
  EXPECT_TRUE(log.IsNew("b", "verbosity"));
  EXPECT_TRUE(log.IsNew("a", "tools[0].x"));
  EXPECT_FALSE(log.IsNew("a", "tools[1].x"));
  size_t lines = 2;
  for (int i = 0; i < 10'000; ++i) lines += log.IsNew("a", "f" + std::to_string(i));
  EXPECT_EQ(lines, kMaxLoggedFieldsPerOwner);
  lines += 1;  // of b
  for (int i = 0; i < 10'000; ++i) lines += log.IsNew("owner" + std::to_string(i), "f");
  EXPECT_EQ(lines, kMaxLoggedFields);
}

}  // namespace
}  // namespace ringside
