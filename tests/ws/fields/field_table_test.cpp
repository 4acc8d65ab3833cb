// Tables of request fields: each policy, and how tables are put together.
#include "ws/fields/field_table.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace ringside {
namespace {

using ::testing::ElementsAre;

struct Inner {
  double ratio = 0;
};

struct TableBase {
  bool flag = false;
};

struct TableRequest : TableBase {
  std::string text;
  std::optional<std::string> more;
  int64_t count = 0;
  Inner inner;
};

FieldTable<TableRequest> MadeTable() {
  const Fields<Inner> ratio = {{"ratio", &Inner::ratio}};
  return FieldTable<TableRequest>(Join(Fields<TableRequest>{{"text", &TableRequest::text},
                                                            {"more", &TableRequest::more},
                                                            {"words", AliasOf{"text"}},
                                                            {"count", &TableRequest::count, Range{1, 9}},
                                                            {"inner", &TableRequest::inner, FieldTable<Inner>(ratio)},
                                                            {"tier", Hint{{"auto"}, "a tier"}},
                                                            {"type", Silent{}},
                                                            {"suffix", Refuse{}},
                                                            {"lora", Silent{}}},  // precedes the row of ForeignFields
                                       Fields<TableBase>{{"flag", &TableBase::flag}}, In(&TableRequest::inner, ratio),
                                       ForeignFields()));
}

struct TableRead {
  Status status;
  TableRequest request;
  std::vector<std::string> ignored;
};

TableRead ReadTable(const char* json, bool strict = false) {
  static const FieldTable<TableRequest> table = MadeTable();
  static const SessionTableOptions options;
  TableRead read;
  IgnoredFields ignored(strict);
  read.status = table.Read(ParseJson(json).value(), {options, &ignored}, &read.request);
  read.ignored = ignored.names();
  return read;
}

TEST(FieldTableTest, ValuesReachTheirDestinations) {
  const TableRead read = ReadTable(
      R"({"flag": true, "words": "a", "more": "b", "count": 9.0, "inner": {"ratio": 0.5}, "type": 5, "lora": [1]})",
      true);
  EXPECT_TRUE(read.status.ok()) << read.status.message();
  EXPECT_TRUE(read.request.flag);
  EXPECT_EQ(read.request.text, "a");
  EXPECT_EQ(read.request.more, "b");
  EXPECT_EQ(read.request.count, 9);
  EXPECT_EQ(read.request.inner.ratio, 0.5);
  EXPECT_EQ(ReadTable(R"({"ratio": 0.25})").request.inner.ratio, 0.25);
}

TEST(FieldTableTest, NullIsAbsence) {
  const TableRead read = ReadTable(R"({"text": null, "suffix": null, "colour": null, "inner": null})", true);
  EXPECT_TRUE(read.status.ok());
  EXPECT_TRUE(read.ignored.empty());
}

TEST(FieldTableTest, ErrorsNameTheFieldAndTheLimit) {
  const struct {
    const char *json, *reason, *param;
  } cases[] = {
      {R"({"flag": 1})", "invalid_type", "flag"},
      {R"({"words": 1})", "invalid_type", "words"},
      {R"({"count": "1"})", "invalid_type", "count"},
      {R"({"count": 10})", "invalid_value", "count"},
      {R"({"inner": []})", "invalid_type", "inner"},
      {R"({"inner": {"ratio": "x"}})", "invalid_type", "inner.ratio"},
      {R"({"suffix": "x"})", "unsupported_value", "suffix"},
      {R"({"grammar": "x"})", "unsupported_value", "grammar"},
      {R"({"add_generation_prompt": false})", "unsupported_value", "add_generation_prompt"},
  };
  for (const auto& [json, reason, param] : cases) {
    const Status status = ReadTable(json).status;
    EXPECT_EQ(status.reason(), reason) << json;
    EXPECT_EQ(status.param(), param) << json;
  }
  EXPECT_EQ(ReadTable(R"({"count": 10})").status.message(), "Invalid 'count': 10 is not in [1, 9].");
}

TEST(FieldTableTest, HintsAndUnknownFieldsAreReported) {
  const char* json = R"({"tier": "flex", "colour": 1, "inner": {"mood": 1}, "suffix": "", "grammar": ""})";
  EXPECT_THAT(ReadTable(json).ignored, ElementsAre("tier", "colour", "inner.mood"));
  EXPECT_TRUE(ReadTable(R"({"tier": "auto", "add_generation_prompt": true})").ignored.empty());
  EXPECT_EQ(ReadTable(R"({"tier": "flex"})", true).status.message(), "This server does not support a tier.");
  EXPECT_EQ(ReadTable(R"({"colour": 1})", true).status.reason(), "unknown_parameter");
  EXPECT_EQ(ReadTable(R"({"inner": {"mood": 1}})", true).status.param(), "inner.mood");
  EXPECT_EQ(ReadTable(R"({"grammar": ""})", true).status.reason(), "unknown_parameter");
}

TEST(FieldTableTest, AQueryIsReadAsStrings) {
  HttpRequest request;
  request.query = {{"text", ""}, {"more", "b"}, {"more", "c"}, {"colour", "red"}};
  const SessionTableOptions options;
  IgnoredFields ignored;
  TableRequest out;
  EXPECT_TRUE(MadeTable().ReadQuery(request, {options, &ignored}, &out).ok());
  EXPECT_EQ(out.more, "b") << "the first value counts";
  EXPECT_THAT(ignored.names(), ElementsAre("colour"));
}

TEST(FieldTableTest, TheReferenceFollowsFromTheRows) {
  std::vector<std::string> lines;
  for (const FieldInfo& field : MadeTable().Describe()) {
    if (field.policy == FieldPolicy::kRefuse) continue;
    lines.push_back(field.name + ": " + FieldTypeName(field.type) + ", " + std::string(FieldPolicyName(field.policy)) +
                    ", " + field.limits + ", " + field.alias_of);
  }
  EXPECT_THAT(lines, ElementsAre("count: integer, read, 1 to 9, ", "flag: boolean, read, , ", "inner: object, read, , ",
                                 "inner.ratio: number, read, , ", "lora: any, silent, , ", "more: string, read, , ",
                                 "ratio: number, read, , ", "text: string, read, , ", "tier: any, hint, , ",
                                 "type: any, silent, , ", "words: string, read, , text"));
}

}  // namespace
}  // namespace ringside
