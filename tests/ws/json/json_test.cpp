#include <gtest/gtest.h>

#include <bit>
#include <limits>
#include <nlohmann/json.hpp>
#include <random>
#include <string>

#include "tests/ws/openai/responses_fixture.h"
#include "ws/json/json_value.h"
#include "ws/json/json_writer.h"

namespace ringside {
namespace {

TEST(JsonValue, ReadsEveryValueKind) {
  const Result<JsonValue> value = ParseJson(R"({"a":[1,-2,3.5,true,null,"x\u00e9"],"b":{},"c":18446744073709551615})");
  ASSERT_TRUE(value.ok());
  const std::vector<JsonValue>& a = value->Find("a")->array();
  ASSERT_EQ(a.size(), 6U);
  EXPECT_EQ(a[0].integer(), 1);
  EXPECT_EQ(a[1].integer(), -2);
  EXPECT_EQ(a[2].number(), 3.5);
  EXPECT_TRUE(a[3].boolean());
  EXPECT_TRUE(a[4].is_null());
  EXPECT_EQ(a[5].string(), "x\xc3\xa9");
  EXPECT_TRUE(value->Find("b")->is_object());
  EXPECT_FALSE(value->Find("c")->is_integer());
  EXPECT_EQ(value->Find("c")->number(), 18446744073709551615.0);
  EXPECT_EQ(value->Find("d"), nullptr);
}

TEST(JsonValue, LastRepeatedKeyWins) {
  const Result<JsonValue> value = ParseJson(R"({"a":{"x":1},"b":2,"a":3})");
  EXPECT_EQ(value->Find("a")->integer(), 3);
  EXPECT_EQ(value->object().size(), 2U);
}

TEST(JsonValue, LimitsDepthExactly) {
  const auto nested = [](size_t depth) { return std::string(depth, '[') + std::string(depth, ']'); };
  EXPECT_TRUE(ParseJson(nested(64)).ok());
  EXPECT_EQ(ParseJson(nested(65)).status().reason(), "invalid_json");
  EXPECT_FALSE(ParseJson(nested(1000000)).ok());
}

TEST(JsonValue, MessagesArePrintable) {
  for (const std::string& bad : {std::string("\x01\xff"), std::string("{\"\xff\":1}"), std::string("\"\x1b[31m\"")}) {
    const Status status = ParseJson(bad).status();
    ASSERT_FALSE(status.ok());
    for (const char c : status.message()) EXPECT_TRUE(c >= 0x20 && c < 0x7f);
  }
}

TEST(JsonWriter, NlohmannReadsItsOutput) {
  JsonWriter json;
  json.BeginObject().Field("a", 1).Field("b", "x\"y").Key("c").BeginArray().Value(true).Null().Value(0.1).EndArray();
  json.Field("d", std::numeric_limits<double>::quiet_NaN()).Field("e", uint64_t{18446744073709551615U});
  json.Key("f").Raw("[1]").Key("g").BeginObject().EndObject().TextOrNull("h", "").EndObject();
  EXPECT_EQ(json.text(),
            R"({"a":1,"b":"x\"y","c":[true,null,0.1],"d":null,"e":18446744073709551615,"f":[1],"g":{},"h":null})");
}

// Random bytes, mostly problematic ones.
std::string RandomText(std::mt19937& random, size_t size) {
  static const std::string pieces[] = {"a",
                                       "\"",
                                       "\\",
                                       "\n",
                                       std::string(1, '\0'),
                                       "\x1f",
                                       "\x7f",
                                       "\xc3\xa9",
                                       "\xf0\x9f\x99\x82",
                                       "\xff",
                                       "\xc0\x80",
                                       "\xed\xa0\x80",
                                       "\xe2\x82",
                                       "\xf4\x90\x80\x80"};
  std::string text;
  while (text.size() < size) {
    if (random() % 4 == 0) {
      text.push_back(static_cast<char>(random()));
    } else {
      text += pieces[random() % std::size(pieces)];
    }
  }
  return text;
}

TEST(JsonWriter, DoublesRoundTrip) {
  for (const double value : {0.0, -0.0, 0.1, -3.5e-7, 1e308, 5e-324, 1e18}) {
    const double read = ParseJson(JsonWriter().Value(value).text())->number();
    EXPECT_EQ(std::bit_cast<uint64_t>(read), std::bit_cast<uint64_t>(value)) << value;
  }
}

TEST(JsonWriter, EscapesAnyBytesLikeNlohmann) {
  std::mt19937 random(1);
  for (int i = 0; i < 20000; ++i) {
    const std::string text = RandomText(random, random() % 24);
    const std::string escaped = '"' + JsonEscaped(text) + '"';
    const std::string reference = nlohmann::json(text).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
    const nlohmann::json read = nlohmann::json::parse(escaped);  // valid JSON and valid UTF-8
    const std::string mine = read.get<std::string>();
    if (nlohmann::json::accept('"' + JsonEscaped(text) + '"') && mine == text) continue;
    // Bad bytes: the number of replacement characters may differ, but valid text must be kept in order.
    const auto good = [](std::string s) {
      for (size_t at; (at = s.find("\xef\xbf\xbd")) != std::string::npos;) s.erase(at, 3);
      return s;
    };
    EXPECT_EQ(good(mine), good(nlohmann::json::parse(reference).get<std::string>()));
  }
}

TEST(JsonValue, MatchesNlohmannOnMutatedDocuments) {
  const std::string seed =
      R"({"type":"response.create","input":[{"role":"user","content":[{"type":"input_text","text":"a\u00e9\ud83d\ude42"}]}],)"
      R"("temperature":0.5,"seed":-12,"stop":["x"],"metadata":{"a":"b"},"store":true,"n":null,"big":1e30})";
  std::mt19937 random(2);
  int accepted = 0;
  for (int i = 0; i < 30000; ++i) {
    std::string text = seed;
    for (size_t n = 1 + random() % 4; n > 0; --n) {
      const size_t at = random() % text.size();
      switch (random() % 4) {
        case 0:
          text[at] = static_cast<char>(random());
          break;
        case 1:
          text.erase(at, 1 + random() % 5);
          break;
        case 2:
          text.insert(at, text.substr(random() % text.size(), random() % 12));
          break;
        default:
          text.insert(at, 1, "{}[]\",:\\0e-+.tfn"[random() % 16]);
          break;
      }
      if (text.empty()) text = "0";
    }
    const bool ours = ParseJson(text).ok();
    EXPECT_EQ(ours, nlohmann::json::accept(text)) << text;
    accepted += ours ? 1 : 0;
  }
  EXPECT_GT(accepted, 1000);
}

class JsonDoorTest : public ResponsesTest {};

TEST_F(JsonDoorTest, SurvivesAnyFrame) {
  const std::string seeds[] = {
      Create({{"temperature", 0.5},
              {"stop", {"x"}},
              {"logit_bias", {{"1", 2}}},
              {"stream_id", "a"},
              {"metadata", {{"k", "v"}}},
              {"text", {{"format", {{"type", "text"}}}}}})
          .dump(),
      Json{{"type", "response.cancel"}, {"response_id", "resp_x"}}.dump(),
      Json{{"type", "response.steer"}, {"input", {{{"role", "user"}}}}}.dump(),
      Json{{"type", "ringside:session.resume"}, {"session", "conv_x"}, {"after", 5}, {"epoch", 1}}.dump(),
      Json{{"type", "ringside:session.rewind"}, {"session", "conv_x"}, {"to", 5}}.dump(),
      Json{{"type", "ringside:session.fork"}, {"session", "conv_x"}, {"at", 5}}.dump(),
  };
  std::mt19937 random(3);
  TestSocket fuzzed(table);
  for (int i = 0; i < 20000; ++i) {
    std::string text = seeds[random() % std::size(seeds)];
    for (size_t n = 1 + random() % 3; n > 0; --n) {
      const size_t at = random() % text.size();
      switch (random() % 4) {
        case 0:
          text[at] = static_cast<char>(random());
          break;
        case 1:
          text.erase(at, 1);
          break;
        case 2: {  // replaces a value by another
          static const char* kValues[] = {"null", "-1", "[]", "{}", "\"\"", "1e308", "true", "[[1]]", "99999999999"};
          const size_t colon = text.find(':', at);
          if (colon != std::string::npos) {
            text.replace(colon + 1, std::min(text.find_first_of(",}]", colon + 1), text.size()) - colon - 1,
                         kValues[random() % std::size(kValues)]);
          }
          break;
        }
        default:
          text.insert(at, text.substr(random() % text.size(), random() % 8));
          break;
      }
    }
    fuzzed.Send(text);
    if (i % 50 == 0) fuzzed.Frames();  // each is a JSON object, or parsing here would throw
  }
  client.Send(Create());
  engine.Answer(engine.count() - 1, "Yo");
  EXPECT_EQ(client.Frames().back()["type"], "response.completed");
}

}  // namespace
}  // namespace ringside
