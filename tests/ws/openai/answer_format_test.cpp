// Answer formats: parsed from JSON, compiled when the turn starts, echoed, kept by a continued answer.
#include "engine/grammar/grammar.h"
#include "tests/ws/openai/responses_fixture.h"
#include "ws/content/answer_format_reader.h"

namespace ringside {
namespace {

using Kind = AnswerFormat::Kind;

Result<AnswerFormat> Read(const Json& format, FormatShape shape = FormatShape::kFlat) {
  AnswerFormat out;
  IgnoredFields ignored(/*strict=*/true);
  RETURN_IF_ERROR(ReadAnswerFormat(ParseJson(format.dump()).value(), "p", shape, &ignored, &out));
  return out;
}

TEST(AnswerFormatReader, ReadsBothFormShapes) {
  const Json schema = {{"type", "object"}, {"properties", {{"b", {{"type", "null"}}}, {"a", {{"type", "null"}}}}}};
  const Json fields = {{"name", "n"}, {"schema", schema}, {"strict", false}, {"description", "d"}};
  Json flat = fields;
  flat["type"] = "json_schema";
  const AnswerFormat one = Read(flat).value();
  EXPECT_EQ(one.kind, Kind::kJsonSchema);
  EXPECT_EQ(one.text, schema.dump());  // members in order
  EXPECT_EQ(one.param, "p.schema");
  const AnswerFormat two = Read({{"type", "json_schema"}, {"json_schema", fields}}, FormatShape::kNested).value();
  EXPECT_EQ(two.text, one.text);
  EXPECT_EQ(two.param, "p.json_schema.schema");
  for (const FormatShape shape : {FormatShape::kFlat, FormatShape::kNested}) {
    EXPECT_TRUE(Read({{"type", "text"}}, shape)->free());
    EXPECT_EQ(Read({{"type", "json_object"}}, shape)->kind, Kind::kJsonObject);
    EXPECT_EQ(Read({{"type", "regex"}, {"regex", "a+"}}, shape)->text, "a+");
    EXPECT_EQ(Read({{"type", "grammar"}, {"grammar", "root ::= \"a\""}}, shape)->param, "p.grammar");
  }
}

TEST(AnswerFormatReader, RefusesByName) {
  const std::pair<Json, const char*> flat[] = {
      {5, "p"},
      {Json::object(), "p"},
      {{{"type", 1}}, "p.type"},
      {{{"type", "xml"}}, "p.type"},
      {{{"type", "text"}, {"x", 1}}, "p.x"},
      {{{"type", "regex"}}, "p.regex"},
      {{{"type", "regex"}, {"regex", 1}}, "p.regex"},
      {{{"type", "json_schema"}, {"schema", Json::object()}}, "p.name"},
      {{{"type", "json_schema"}, {"name", "a b"}, {"schema", Json::object()}}, "p.name"},
      {{{"type", "json_schema"}, {"name", "a"}}, "p.schema"},
      {{{"type", "json_schema"}, {"name", "a"}, {"schema", true}}, "p.schema"},
      {{{"type", "json_schema"}, {"name", "a"}, {"schema", Json::object()}, {"strict", 1}}, "p.strict"},
      {{{"type", "json_schema"}, {"json_schema", Json::object()}}, "p.json_schema"},
  };
  for (const auto& [format, param] : flat) EXPECT_EQ(Read(format).status().param(), param) << format;
  EXPECT_EQ(Read({{"type", "json_schema"}}, FormatShape::kNested).status().param(), "p.json_schema");
  EXPECT_EQ(Read({{"type", "json_schema"}, {"json_schema", {{"name", "a"}}}}, FormatShape::kNested).status().param(),
            "p.json_schema.schema");
}

class AnswerFormatTest : public ResponsesTest {
 protected:
  static Json Format(const Json& format, Json fields = Json::object()) {
    fields["text"] = {{"format", format}};
    return Create(fields);
  }
};

TEST_F(AnswerFormatTest, TurnCarriesTheGrammarAndResponseTheFormat) {
  const Json format = {{"type", "json_schema"},
                       {"name", "n"},
                       {"schema", {{"type", "object"}, {"properties", {{"a", {{"type", "integer"}}}}}}},
                       {"strict", true}};
  client.Send(Format(format));
  ASSERT_NE(engine.last().grammar, nullptr);
  GrammarMatcher matcher(engine.last().grammar);
  EXPECT_TRUE(matcher.Append(R"({"a":1})").ok());
  EXPECT_FALSE(matcher.may_continue());
  EXPECT_EQ(client.Frames().front()["response"]["text"]["format"], format);
  engine.Answer(0, "Yo");
  client.Send(Format({{"type", "text"}}));
  ASSERT_EQ(engine.count(), 2u);
  EXPECT_EQ(engine.last().grammar, nullptr);
}

TEST_F(AnswerFormatTest, SchemaErrorsNameTheField) {
  client.Send(Format({{"type", "json_schema"},
                      {"name", "n"},
                      {"schema", {{"type", "object"}, {"properties", {{"x", {{"multipleOf", 2}}}}}}}}));
  const Json error = client.Error();
  EXPECT_EQ(error["code"], "unsupported_value");
  EXPECT_EQ(error["param"], "text.format.schema.properties.x.multipleOf");
  EXPECT_EQ(engine.count(), 0u);
}

TEST_F(AnswerFormatTest, TruncatedAnswerContinuesUnderItsFormat) {
  const std::string conversation = NewConversation();
  const Json format = {{"type", "regex"}, {"regex", "(yes|no), (sir|madam)"}};
  client.Send(Format(format, {{"conversation", conversation}}));
  engine.Start(0);
  engine.Say(0, "yes, ");
  engine.End(0, FinishReason::kLength);
  client.Frames();
  client.Send(
      Format({{"type", "regex"}, {"regex", "no.*"}}, {{"conversation", conversation}, {"input", Json::array()}}));
  EXPECT_EQ(client.Error()["param"], "text.format.regex");
  client.Send(Format(format, {{"conversation", conversation}, {"input", Json::array()}}));
  ASSERT_EQ(engine.count(), 2u);
  EXPECT_EQ(engine.last().begun, "yes, ");
  EXPECT_NE(engine.last().grammar, nullptr);
}

TEST_F(AnswerFormatTest, ContinuedAnswerReportsItsFormat) {
  const Json schema = {{"type", "object"}, {"properties", {{"b", {{"type", "null"}}}, {"a", {{"type", "null"}}}}}};
  const std::pair<Json, const char*> formats[] = {
      {{{"type", "json_schema"}, {"name", "n"}, {"schema", schema}, {"strict", true}}, R"({"b":)"},
      {{{"type", "json_object"}}, R"({"b":)"},
      {{{"type", "regex"}, {"regex", "\"yes, (sir|madam)\""}}, "\"yes, "},
      {{{"type", "grammar"}, {"grammar", "root ::= \"yes\" | \"no\""}}, "ye"}};
  for (const auto& [format, begun] : formats) {
    const std::string conversation = NewConversation();
    client.Send(Format(format, {{"conversation", conversation}}));
    const size_t turn = engine.count() - 1;
    engine.Start(turn);
    engine.Say(turn, begun);
    engine.End(turn, FinishReason::kLength);
    const Json cut = client.Frames().back()["response"];
    const Json inherits[] = {{{"conversation", conversation}, {"input", Json::array()}},
                             {{"previous_response_id", cut["id"]}, {"input", Json::array()}}};  // a fork
    for (const Json& fields : inherits) {
      client.Send(Create(fields));
      engine.End(engine.count() - 1, FinishReason::kCancelled);
      for (const Json& frame : client.Frames()) {
        if (!frame.contains("response")) continue;
        EXPECT_EQ(frame["response"]["text"]["format"], format) << frame["type"];
      }
    }
    client.Send(Create({{"conversation", conversation}}));  // another answer
    EXPECT_EQ(client.Frames().front()["response"]["text"]["format"], (Json{{"type", "text"}}));
    engine.Answer(engine.count() - 1, "Yo");
    client.Frames();
  }
}

}  // namespace
}  // namespace ringside
