// The JSON reader's limits, and trees equal to those of the library's own parser.
#include "base/json/json_reader.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>

#include "base/json/json_tree.h"

namespace ringside {
namespace {

using Kind = JsonFault::Kind;

JsonFault FaultOf(std::string_view text, const JsonLimits& limits = {}) {
  JsonFault fault;
  const bool discarded = ParseJsonTree(text, limits, &fault).is_discarded();
  EXPECT_EQ(discarded, !fault.ok()) << text;
  EXPECT_EQ(ParseOrderedJsonTree(text, limits).is_discarded(), discarded) << text;
  return fault;
}

TEST(JsonReader, BuildsTheTreeOfTheText) {
  const std::string text =
      R"({"b":[1,-2,2.5,18446744073709551615,1e3,36893488147419103232],"a":{"c":"\u00e9\n","d":null},"e":[true,false,{},[]]})";
  EXPECT_EQ(ParseJsonTree(text), nlohmann::json::parse(text));
  EXPECT_EQ(ParseOrderedJsonTree(text).dump(), nlohmann::ordered_json::parse(text).dump());
  EXPECT_TRUE(ParseJsonTree("7").is_number_unsigned());
  EXPECT_TRUE(ParseJsonTree("-7").is_number_integer());
  EXPECT_TRUE(ParseJsonTree("7.0").is_number_float());
}

TEST(JsonReader, KeepsTheLastValueOfARepeatedName) {
  const std::string text = R"({"a":1,"b":2,"a":{"a":3,"a":[4]}})";
  EXPECT_EQ(ParseJsonTree(text).dump(), R"({"a":{"a":[4]},"b":2})");
  EXPECT_EQ(ParseOrderedJsonTree(text).dump(), R"({"a":{"a":[4]},"b":2})");
}

TEST(JsonReader, RefusesRepeatedNamesIfAsked) {
  const JsonLimits unique{.unique_names = true};
  EXPECT_EQ(FaultOf(R"({"a":{"a":1},"b":[{"a":1},{"a":2}]})", unique).kind, Kind::kNone);
  const JsonFault fault = FaultOf(R"({"b":{"a":1,"c":[],"a":2}})", unique);
  EXPECT_EQ(fault.kind, Kind::kRepeatedName);
  EXPECT_EQ(fault.message, "'a' occurs twice");
}

// Long strings bypass the library's parser.
TEST(JsonReader, ReadsLongStringsAsTheLibraryDoes) {
  const std::string base64 = [] {
    std::string letters;
    for (int i = 0; i < 20'000; ++i) letters += "ABCabc019+/="[i % 12];
    return letters;
  }();
  const std::string escaped = base64 + R"(\\\")" + base64 + R"(\u00e9\\)", wide = base64 + "\xc3\xa9";
  for (const std::string& text :
       {"\"" + base64 + "\"", R"({"a\"":["","x",")" + base64 + R"("],"b":")" + escaped + R"(","":")" + base64 + R"("})",
        R"({")" + base64 + R"(":{"c":")" + wide + R"("},"d":")" + base64 + R"(","e":"\\"})",
        "[\"" + escaped + "\",\"" + escaped + "\",\"\"]"}) {
    EXPECT_EQ(ParseJsonTree(text), nlohmann::json::parse(text));
    EXPECT_EQ(ParseOrderedJsonTree(text).dump(), nlohmann::ordered_json::parse(text).dump());
    for (size_t cut = text.size() - 4; cut > 0; cut = cut * 2 / 3) {
      EXPECT_EQ(FaultOf(text.substr(0, cut)).kind, Kind::kSyntax) << cut;
    }
  }
  EXPECT_EQ(FaultOf("[\"" + base64 + "\x01\"]").kind, Kind::kSyntax);
  EXPECT_EQ(FaultOf("[\"" + base64 + "\xff\"]").kind, Kind::kSyntax);
  EXPECT_EQ(FaultOf("[x\"" + base64 + "\"]").kind, Kind::kSyntax);
  const std::string wrong = "[\"" + base64 + "\",x]";
  size_t byte = 0;
  try {
    const nlohmann::json read = nlohmann::json::parse(wrong);
  } catch (const nlohmann::json::parse_error& error) {
    byte = error.byte;
  }
  const std::string place = "at byte " + std::to_string(byte) + ":";
  EXPECT_EQ(FaultOf(wrong).message.substr(0, place.size()), place);
}

TEST(JsonReader, LimitsBytesDepthAndValues) {
  EXPECT_EQ(FaultOf("[1]", {.bytes = 3}).kind, Kind::kNone);
  EXPECT_EQ(FaultOf("[1] ", {.bytes = 3}).message, "longer than 3 bytes");
  EXPECT_EQ(FaultOf(R"([{"a":[]}])", {.depth = 3}).kind, Kind::kNone);
  const JsonFault deep = FaultOf(R"([{"a":[[]]}])", {.depth = 3});
  EXPECT_EQ(deep.kind, Kind::kDepth);
  EXPECT_EQ(deep.message, "nested deeper than 3 levels");
  EXPECT_EQ(FaultOf(R"([{"a":1},2])", {.values = 4}).kind, Kind::kNone);
  const JsonFault many = FaultOf(R"([{"a":1},2,3])", {.values = 4});
  EXPECT_EQ(many.kind, Kind::kValues);
  EXPECT_EQ(many.message, "more than 4 values");
  EXPECT_EQ(FaultOf(std::string(1 << 20, '[')).kind, Kind::kDepth);
}

TEST(JsonReader, RefusesWhatIsNoJson) {
  for (const char* text :
       {"", "{", "[1,]", "{\"a\"}", "1 2", "\"\xff\"", "\"\\ud800\"", "1e999", "nul", "'a'", "// a\n1"}) {
    const JsonFault fault = FaultOf(text);
    EXPECT_EQ(fault.kind, Kind::kSyntax) << text;
    EXPECT_NE(fault.message, "") << text;
    EXPECT_LE(fault.message.size(), 200u) << text;
    for (const unsigned char c : fault.message) EXPECT_TRUE(c >= 0x20 && c < 0x7f) << text;
  }
  std::string unclosed(10000, 'a');
  unclosed[0] = '"';
  EXPECT_LE(FaultOf(unclosed).message.size(), 200u);
}

}  // namespace
}  // namespace ringside
