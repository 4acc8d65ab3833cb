#include "engine/grammar/schema/json_schema.h"

#include <nlohmann/json.hpp>

#include "base/limits.h"
#include "tests/engine/grammar/grammar_harness.h"

namespace ringside {
namespace {

struct SchemaCase {
  const char* schema;
  std::vector<const char*> valid, others;
};

void Check(const SchemaCase& one) {
  const auto grammar = Compile(AnswerFormat::Kind::kJsonSchema, one.schema);
  ASSERT_TRUE(grammar.ok()) << one.schema << ": " << grammar.status().message();
  for (const char* text : one.valid) EXPECT_TRUE(Matches(*grammar, text)) << one.schema << "\n" << text;
  for (const char* text : one.others) EXPECT_FALSE(Matches(*grammar, text)) << one.schema << "\n" << text;
}

TEST(JsonSchema, Scalars) {
  const SchemaCase cases[] = {
      {R"({"type":"null"})", {"null"}, {"", "nul", "0"}},
      {R"({"type":"boolean"})", {"true", "false"}, {"True", "1"}},
      {R"({"type":"integer"})", {"0", "-1", "42", "999999999999999999"}, {"", "-0", "01", "1.0", "1e2", "+1", "-"}},
      {R"({"type":"number"})", {"0", "-0.5", "1e10", "12.25E-3", "7"}, {".5", "1.", "1e", "0x1", "01"}},
      {R"({"type":"string"})",
       {R"("")", R"("a b")", "\"\xC3\xA9\xF0\x9F\x98\x80\"", R"("\n\t\"\\\/\b\f\r")", R"("\u00e9\uD83D\uDE00")"},
       {"a", "\"", "\"a", "\"a\"b\"", "\"\n\"", R"("\x")", R"("\u12")", R"("\ud83d")", R"("\ude00")", "\"\xC3\"",
        "\"\xED\xA0\x80\""}},
      {R"({"type":["string","null"]})", {"null", R"("x")"}, {"1"}},
      {R"({"type":["integer","number"]})", {"1.5", "2"}, {"null"}},
      {R"({"const":{"a":[1,"x",null,true]}})", {R"({"a":[1,"x",null,true]})"}, {R"({"a":[1]})", "{}"}},
      {R"({"enum":["a","ab","é\n",1,null]})",
       {R"("a")", R"("ab")", "\"\xC3\xA9\\n\"", "1", "null"},
       {R"("b")", "11", R"("a)"}},
      {R"({"type":"integer","enum":["a",1,2.0,2.5]})", {"1", "2.0"}, {R"("a")", "2.5"}},
      {R"(true)", {"1", "null", R"({"a":[{}]})"}, {"", "{"}},
      {R"({})", {R"([1, 2])", "\"x\""}, {"[1,  2]", "[1,\n2]"}},
      {R"({"title":"t","description":"d","default":3,"examples":[1],"$schema":"s","$comment":"c"})", {"1"}, {"x"}},
  };
  for (const SchemaCase& one : cases) Check(one);
}

TEST(JsonSchema, Strings) {
  const SchemaCase cases[] = {
      {R"({"type":"string","minLength":2,"maxLength":3})",
       {R"("ab")", R"("abc")", "\"\xC3\xA9\xF0\x9F\x98\x80\"", R"("\u00e9\n")", R"("\ud83d\ude00a")"},
       {R"("a")", R"("abcd")", R"("\ud83d\ude00")", "\"\""}},
      {R"({"type":"string","pattern":"^[a-z]+[0-9]$"})", {R"("ab1")"}, {R"("AB1")", R"("ab")", R"("ab12")"}},
      {R"({"type":"string","pattern":"b"})", {R"("abc")", R"("b")", R"("\n\"b")"}, {R"("ac")", "\"\""}},
      {R"({"type":"string","pattern":"^a|c$"})", {R"("ab")", R"("bc")"}, {R"("ba")", R"("cb")"}},
      {R"({"type":"string","pattern":"^\"\\\\\n$"})", {R"("\"\\\n")"}, {R"(""\\\n")"}},
      {R"({"type":"string","pattern":"^.*x","minLength":2,"maxLength":3})",
       {R"("xa")", R"("aax")", R"("\"x")"},
       {R"("x")", R"("aaxx")", R"("ab")"}},
      {R"({"type":"string","format":"date"})",
       {R"("2024-02-29")", R"("2000-02-29")", R"("1999-12-31")"},
       {R"("2023-02-29")", R"("1900-02-29")", R"("2024-13-01")", R"("2024-04-31")", R"("2024-1-1")"}},
      {R"({"type":"string","format":"time"})",
       {R"("23:59:59Z")", R"("00:00:00.125+02:30")"},
       {R"("24:00:00Z")", R"("12:00Z")", R"("12:00:00")"}},
      {R"({"type":"string","format":"date-time"})", {R"("2024-02-29T12:00:00Z")"}, {R"("2024-02-29 12:00:00Z")"}},
      {R"({"type":"string","format":"uuid"})", {R"("12345678-1234-abcd-ABCD-123456789abc")"}, {R"("1234")"}},
      {R"({"type":"string","format":"ipv4"})", {R"("192.168.0.255")"}, {R"("256.1.1.1")", R"("01.1.1.1")"}},
      {R"({"type":"string","format":"email"})", {R"("a.b@c-d.org")"}, {R"("a@b")", R"(".a@b.org")", R"("a@-b.org")"}},
      {R"({"type":"string","format":"date","pattern":"^2024"})", {R"("2024-01-01")"}, {R"("2023-01-01")"}},
  };
  for (const SchemaCase& one : cases) Check(one);
}

TEST(JsonSchema, Objects) {
  const SchemaCase cases[] = {
      {R"({"type":"object"})",
       {"{}", R"({"a":1,"b":{"c":[]}})", R"({"a": 1, "b": 2})"},
       {"{ }", R"({"a" :1})", R"({"a":1,})"}},
      {R"({"type":"object","properties":{"a":{"type":"integer"},"b":{"type":"string"},"c":{"type":"null"}},"required":["b"]})",
       {R"({"a":1,"b":"x","c":null})", R"({"b":"x"})", R"({"a":1, "b": "x"})", R"({"b":"","c":null})"},
       {"{}", R"({"a":1})", R"({"b":"x","a":1})", R"({"b":"x","d":1})", R"({"a":1,"b":"x","c":null,"c":null})",
        R"({,"b":""})"}},
      {R"({"properties":{"a":{"type":"integer"},"b":{"type":"integer"}}})",
       {"{}", R"({"b":1})", R"({"a":1,"b":2})"},
       {R"({"c":1})", "1"}},
      {R"({"type":"object","properties":{"a":{"type":"integer"}},"additionalProperties":{"type":"boolean"}})",
       {"{}", R"({"a":1,"x":true})", R"({"ab":false})", R"({"":true,"b":true})", R"({"A":true})"},
       {R"({"a":true})", R"({"x":1})", R"({"x":true,"a":true})", R"({"\u0061":true})"}},
      {R"({"type":"object","additionalProperties":false})", {"{}"}, {R"({"a":1})"}},
      {R"({"type":"object","properties":{"a":{"type":"null"}},"required":["a","z"],"additionalProperties":true})",
       {R"({"a":null,"z":1})", R"({"a":null,"z":1,"q":2})"},
       {R"({"a":null})"}},
      {R"({"type":"object","properties":{"a\"\n":{"type":"null"}},"required":["a\"\n"]})",
       {R"({"a\"\n":null})"},
       {"{}"}},
      {R"({"type":"object","properties":{"a":false,"b":{"type":"null"}}})", {"{}", R"({"b":null})"}, {R"({"a":1})"}},
      {R"({"type":"object","properties":{"o":{"type":"object","properties":{"x":{"enum":[1,2]}},"required":["x"],"additionalProperties":false}},"required":["o"]})",
       {R"({"o":{"x":2}})"},
       {R"({"o":{}})", R"({"o":{"x":3}})"}},
  };
  for (const SchemaCase& one : cases) Check(one);
}

TEST(JsonSchema, Arrays) {
  const SchemaCase cases[] = {
      {R"({"type":"array","items":{"type":"integer"}})",
       {"[]", "[1]", "[1,2,3]", "[1, 2]"},
       {"[,]", "[1,]", "[\"a\"]", "[ ]"}},
      {R"({"type":"array","items":{"type":"integer"},"minItems":2,"maxItems":3})",
       {"[1,2]", "[1,2,3]"},
       {"[]", "[1]", "[1,2,3,4]"}},
      {R"({"type":"array","maxItems":0})", {"[]"}, {"[1]"}},
      {R"({"type":"array","items":false})", {"[]"}, {"[1]"}},
      {R"({"type":"array","prefixItems":[{"type":"integer"},{"type":"string"}],"items":false})",
       {"[]", "[1]", R"([1,"a"])"},
       {R"(["a"])", R"([1,"a",2])", R"([1,2])"}},
      {R"({"type":"array","prefixItems":[{"type":"integer"},{"type":"string"}],"items":{"type":"null"},"minItems":1,"maxItems":4})",
       {"[1]", R"([1,"a"])", R"([1,"a",null,null])"},
       {"[]", R"([1,null])", R"([1,"a",null,null,null])"}},
      {R"({"type":"array","prefixItems":[{"type":"integer"},{"type":"integer"},{"type":"integer"}],"maxItems":2})",
       {"[]", "[1,2]"},
       {"[1,2,3]"}},
      {R"({"type":"array","prefixItems":[{"type":"integer"}],"items":{"type":"null"},"minItems":3})",
       {"[1,null,null]", "[1,null,null,null]"},
       {"[1,null]"}},
  };
  for (const SchemaCase& one : cases) Check(one);
}

TEST(JsonSchema, BranchesAndReferences) {
  const SchemaCase cases[] = {
      {R"({"anyOf":[{"type":"integer"},{"type":"string","maxLength":1}]})", {"1", R"("a")"}, {R"("ab")", "null"}},
      {R"({"oneOf":[{"type":"integer"},{"type":"string"},{"type":"null"}]})", {"1", R"("ab")", "null"}, {"[]"}},
      {R"({"oneOf":[{"type":"object","properties":{"k":{"const":"a"},"x":{"type":"integer"}},"required":["k","x"]},
                    {"type":"object","properties":{"k":{"const":"b"}},"required":["k"]}]})",
       {R"({"k":"a","x":1})", R"({"k":"b"})"},
       {R"({"k":"a"})", R"({"k":"c"})"}},
      {R"({"allOf":[{"$ref":"#/$defs/n"}],"$defs":{"n":{"type":"null"}}})", {"null"}, {"1"}},
      {R"({"$defs":{"list":{"anyOf":[{"type":"null"},{"type":"object","properties":{"v":{"type":"integer"},"next":{"$ref":"#/$defs/list"}},"required":["v","next"],"additionalProperties":false}]}},"$ref":"#/$defs/list"})",
       {"null", R"({"v":1,"next":{"v":2,"next":null}})"},
       {R"({"v":1})"}},
      {R"({"type":"array","items":{"$ref":"#"}})", {"[]", "[[],[[]]]"}, {"[1]"}},
      {R"({"definitions":{"a/b~c":{"type":"null"}},"type":"object","properties":{"x":{"$ref":"#/definitions/a~1b~0c","description":"d"}},"required":["x"]})",
       {R"({"x":null})"},
       {"{}"}},
      {R"({"type":"object","properties":{"a":{"type":"integer"},"b":{"$ref":"#/properties/a"}},"required":["a","b"]})",
       {R"({"a":1,"b":2})"},
       {R"({"a":1,"b":"x"})"}},
  };
  for (const SchemaCase& one : cases) Check(one);
}

TEST(JsonSchema, IgnoresAnnotations) {
  const SchemaCase cases[] = {
      {R"({"type":"integer","x-order":1,"example":2,"examples":[3],"$anchor":"a","deprecated":true,"readOnly":true,
           "contentMediaType":"text/html","contentEncoding":"base64","externalDocs":{"url":"u"},"xml":{},"enumNames":["x"],
           "markdownDescription":"m","frobnicate":{"type":"string"}})",
       {"1"},
       {R"("a")", "null"}},
      {R"({"type":"object","x-a":{},"properties":{"x-b":{"type":"null","x-c":[]}},"required":["x-b"]})",
       {R"({"x-b":null})"},
       {"{}", R"({"x-b":1})"}},
  };
  for (const SchemaCase& one : cases) Check(one);
}

TEST(JsonSchema, NullableAddsNull) {
  const SchemaCase cases[] = {
      {R"({"type":"string","nullable":true,"maxLength":1})", {"null", R"("a")"}, {R"("ab")", "1"}},
      {R"({"type":"string","nullable":false})", {R"("a")"}, {"null"}},
      {R"({"$ref":"#/$defs/a","nullable":true,"$defs":{"a":{"type":"integer"}}})", {"null", "1"}, {R"("a")"}},
      {R"({"anyOf":[{"type":"integer"},{"type":"boolean"}],"nullable":true})", {"null", "1", "true"}, {R"("a")"}},
      {R"({"type":"string","nullable":true,"enum":["a",null]})", {R"("a")", "null"}, {R"("b")"}},
      {R"({"type":"string","nullable":true,"enum":["a"]})", {R"("a")"}, {"null"}},
      {R"({"oneOf":[{"type":"string","nullable":true},{"type":"integer"}]})", {"null", "1", R"("a")"}, {"true"}},
      {R"({"type":"object","properties":{"a":{"type":"object","properties":{},"nullable":true}},"required":["a"]})",
       {R"({"a":null})", R"({"a":{}})"},
       {"{}"}},
  };
  for (const SchemaCase& one : cases) Check(one);
  const auto both = Compile(AnswerFormat::Kind::kJsonSchema,
                            R"({"oneOf":[{"type":"string","nullable":true},{"type":"integer","nullable":true}]})");
  EXPECT_NE(both.status().message().find("may both match"), std::string::npos);
}

TEST(JsonSchema, ReferencesAreUris) {
  const auto refers = [](const char* reference, const char* name) {
    return std::string(R"({"$id":"https://example.org/s.json","$ref":")") + reference + R"(","$defs":{")" + name +
           R"(":{"type":"boolean"},"other":{"type":"null"}}})";
  };
  const std::pair<const char*, const char*> cases[] = {{"#/$defs/List%3Cint%3E", "List<int>"},
                                                       {"#/$defs/List<int>", "List<int>"},
                                                       {"#/%24defs/a%20b", "a b"},
                                                       {"#/$defs/a~1b~0c", "a/b~c"},
                                                       {"#/$defs/a%7E1b", "a/b"},
                                                       {"#/$defs/a%2525", "a%25"},
                                                       {"#/$defs/%C3%A9", "\xC3\xA9"},
                                                       {"#/$defs/100%", "100%"},
                                                       {"#/$defs/a%zz", "a%zz"},
                                                       {"#/$defs/a~01", "a~1"},
                                                       {"https://example.org/s.json#/$defs/a", "a"}};
  for (const auto& [reference, name] : cases) {
    const auto grammar = Compile(AnswerFormat::Kind::kJsonSchema, refers(reference, name));
    ASSERT_TRUE(grammar.ok()) << reference << ": " << grammar.status().message();
    EXPECT_TRUE(Matches(*grammar, "true")) << reference;
    EXPECT_FALSE(Matches(*grammar, "null")) << reference;
  }
  for (const char* reference : {"#/$defs/a%2Fb", "#/$defs/A", "https://example.org/t.json#/$defs/a", "#a"}) {
    const auto grammar = Compile(AnswerFormat::Kind::kJsonSchema, refers(reference, "a/b"));
    EXPECT_EQ(grammar.status().param(), "format.$ref") << reference;
  }
}

TEST(JsonSchema, OneOfChecksSets) {
  const char* const disjoint[] = {
      R"({"oneOf":[{"enum":[1,"a"]},{"const":"b"},{"type":"array"},{"enum":[true,{"a":1}]}]})",
      R"({"oneOf":[{"$ref":"#/$defs/a"},{"type":"null"}],"$defs":{"a":{"anyOf":[{"enum":[1]},{"type":"string"}]}}})",
      R"({"oneOf":[{"type":"object","properties":{"k":{"const":"a"}},"required":["k"]},
                   {"type":"object","properties":{"k":{"enum":["b","c"]}},"required":["k"]},
                   {"type":"object","properties":{"z":{}},"required":["z"],"additionalProperties":false}]})",
      R"({"oneOf":[{"type":"object","properties":{"k":{"type":"string"}},"required":["k"]},
                   {"type":"object","properties":{"k":{"type":"integer"}}}]})",
      R"({"oneOf":[{"type":"object","properties":{"in":{"type":"object","properties":{"k":{"const":1}},"required":["k"]}},"required":["in"]},
                   {"type":"object","properties":{"in":{"type":"object","properties":{"k":{"const":2}},"required":["k"]}},"required":["in"]}]})",
  };
  for (const char* schema : disjoint) {
    const auto grammar = Compile(AnswerFormat::Kind::kJsonSchema, schema);
    EXPECT_TRUE(grammar.ok()) << schema << ": " << grammar.status().message();
  }
  const std::pair<const char*, const char*> overlapping[] = {
      {R"({"oneOf":[{"type":"null"},{"enum":[1,2]},{"enum":["a",1.0]}]})", "1 and 2"},
      {R"({"oneOf":[{"type":"string"},{"type":"null"},{"const":"a"}]})", "0 and 2"},
      {R"({"oneOf":[{"const":{"a":1,"b":2}},{"const":{"b":2,"a":1}}]})", "0 and 1"},
      {R"({"oneOf":[{"type":"object"},{"const":{}}]})", "0 and 1"},
      {R"({"oneOf":[{"type":["object","null"]},{"type":"null"}]})", "0 and 1"},
      {R"({"oneOf":[{"type":"null"},{}]})", "0 and 1"},
      {R"({"oneOf":[{"$ref":"#/$defs/a"},{"$ref":"#/$defs/a"}],"$defs":{"a":{"const":1}}})", "0 and 1"},
      {R"({"oneOf":[{"type":"object","properties":{"k":{"const":1}},"required":["k"]},
                    {"type":"object","properties":{"k":{"const":2}}},{"type":"object","properties":{"k":{"const":2}}}]})",
       "1 and 2"},
  };
  for (const auto& [schema, which] : overlapping) {
    const auto grammar = Compile(AnswerFormat::Kind::kJsonSchema, schema);
    EXPECT_EQ(grammar.status().param(), "format.oneOf") << schema;
    EXPECT_NE(grammar.status().message().find(which), std::string::npos)
        << schema << ": " << grammar.status().message();
  }
}

TEST(JsonSchema, CountsWithAPattern) {
  const SchemaCase cases[] = {
      {R"({"type":"string","pattern":"^a*b","minLength":3})",
       {R"("aab")", R"("bcd")", R"("ab\n\n")"},
       {R"("ab")", R"("b")"}},
      {R"({"type":"string","pattern":"^.*$","maxLength":2})",
       {"\"\"", "\"\xC3\xA9\xF0\x9F\x98\x80\"", R"("\"\\")"},
       {R"("abc")", "\"\xC3\""}},
      {R"({"type":"string","pattern":"^a*$","maxLength":60000})", {R"("aaa")", "\"\""}, {R"("b")"}},
  };
  for (const SchemaCase& one : cases) Check(one);
}

TEST(JsonSchema, RefusalNamesTheLocation) {
  struct Refused {
    const char *schema, *param, *why;
  };
  const Refused cases[] = {
      {R"({"type":"object","properties":{"x":{"type":"integer","multipleOf":2}}})", "format.properties.x.multipleOf",
       "not supported"},
      {R"({"type":"array","items":{"not":{}}})", "format.items.not", "not supported"},
      {R"({"if":{}})", "format.if", "not supported"},
      {R"({"type":"object","patternProperties":{}})", "format.patternProperties", "not supported"},
      {R"({"type":"array","uniqueItems":true})", "format.uniqueItems", "not supported"},
      {R"({"type":"object","minProperties":1})", "format.minProperties", "not supported"},
      {R"({"nullable":1})", "format.nullable", "boolean"},
      {R"({"anyOf":[{"type":"integer"},{"unevaluatedProperties":false}]})", "format.anyOf[1].unevaluatedProperties",
       "not supported"},
      {R"({"type":"array","contains":{}})", "format.contains", "not supported"},
      {R"({"type":"object","dependentRequired":{}})", "format.dependentRequired", "not supported"},
      {R"({"type":"string","max_length":3})", "format.max_length", "'maxLength'"},
      {R"({"type":"object","properties":{"a":{"AnyOf":[]}}})", "format.properties.a.AnyOf", "'anyOf'"},
      {R"({"type":"object","properties":{"a":{"$id":"x","type":"null"}}})", "format.properties.a.$id", "not supported"},
      {R"({"type":"object","anyOf":[{}]})", "format.type", "together with 'anyOf'"},
      {R"({"$ref":"#/$defs/x","type":"null","$defs":{"x":{}}})", "format.type", "together with '$ref'"},
      {R"({"enum":[1],"minimum":0})", "format.minimum", "together with 'enum'"},
      {R"({"allOf":[{},{}]})", "format.allOf", "more than one"},
      {R"({"oneOf":[{"type":"integer"},{"type":"number"}]})", "format.oneOf", "may both match"},
      {R"({"oneOf":[{"type":"object","properties":{"a":{"const":1}}},{"type":"object","properties":{"a":{"const":2}}}]})",
       "format.oneOf", "may both match"},
      {R"({"$ref":"http://example.org/x"})", "format.$ref", "this schema"},
      {R"({"$ref":"#/$defs/none"})", "format.$ref", "there is no"},
      {R"({"$ref":"#"})", "format", "matches no text"},
      {R"({"anyOf":[{"type":"null"},{"$ref":"#"}]})", "format", "left recursion"},
      {R"({"type":"object","properties":{"a":{"$ref":"#"}},"required":["a"]})", "format", "matches no text"},
      {R"({"type":"array","items":[{}]})", "format.items", "prefixItems"},
      {R"({"type":"array","minItems":3,"maxItems":2})", "format", "minItems"},
      {R"({"type":"array","minItems":-1})", "format.minItems", "count"},
      {R"({"type":"string","maxLength":1.5})", "format.maxLength", "count"},
      {R"({"type":"string","maxLength":1e9})", "format.maxLength", "counts go up"},
      {R"x({"type":"string","pattern":"(?=a)"})x", "format.pattern", "lookahead"},
      {R"({"type":"string","pattern":"^a{3}$","maxLength":2})", "format", "no string satisfies"},
      {R"({"type":"string","format":"uri"})", "format.format", "supported formats"},
      {R"({"type":"integer","minimum":2,"maximum":1})", "format", "no number is within"},
      {R"({"type":"integer","minimum":"2"})", "format.minimum", "number is expected"},
      {R"({"type":"integer","minimum":1,"exclusiveMinimum":1})", "format.exclusiveMinimum", "conflicts with another"},
      {R"({"type":"strin"})", "format.type", "type is one of"},
      {R"({"minimum":1,"minLength":1})", "format", "'type' is missing"},
      {R"({"type":"object","required":["a"],"additionalProperties":false})", "format", "matches no text"},
      {R"({"enum":[]})", "format", "none of its values"},
      {R"({"properties":{"a":1}})", "format.properties.a", "a schema is"},
      {R"([])", "format", "a schema is"},
      {R"({"a)", "format", "not valid JSON"},
  };
  for (const Refused& one : cases) {
    const auto grammar = Compile(AnswerFormat::Kind::kJsonSchema, one.schema);
    ASSERT_FALSE(grammar.ok()) << one.schema;
    EXPECT_NE(grammar.status().message().find(one.why), std::string::npos)
        << one.schema << ": " << grammar.status().message();
    if (!grammar.status().param().empty()) {
      EXPECT_EQ(grammar.status().param(), one.param) << one.schema << ": " << grammar.status().message();
    }
  }
}

TEST(JsonSchema, LimitsHostileSchemas) {
  const std::string deep = std::string(5000, '[') + std::string(5000, ']');
  EXPECT_FALSE(Compile(AnswerFormat::Kind::kJsonSchema, deep).ok());
  // Each level doubles the expansion.
  std::string doubles = R"({"$ref":"#/$defs/d0","$defs":{)";
  for (int i = 0; i < 40; ++i) {
    const std::string next = R"({"$ref":"#/$defs/d)" + std::to_string(i + 1) + "\"}";
    doubles += "\"d" + std::to_string(i) + R"(":{"type":"array","prefixItems":[)" + next + "," + next +
               R"(],"items":false,"minItems":2},)";
  }
  EXPECT_TRUE(Compile(AnswerFormat::Kind::kJsonSchema, doubles + R"("d40":{"type":"null"}}})").ok());
  // A long chain of references.
  std::string chain = R"({"$ref":"#/$defs/c0","$defs":{)";
  for (int i = 0; i < 4000; ++i) {
    chain += "\"c" + std::to_string(i) + R"(":{"$ref":"#/$defs/c)" + std::to_string(i + 1) + "\"},";
  }
  EXPECT_TRUE(Compile(AnswerFormat::Kind::kJsonSchema, chain + R"("c4000":{"type":"null"}}})").ok());
  const auto counts = Compile(AnswerFormat::Kind::kJsonSchema,
                              R"({"type":"array","minItems":60000,"items":{"type":"string","minLength":60000}})");
  EXPECT_NE(counts.status().message().find("too large"), std::string::npos);
  // Its automaton is exponential in the count.
  const auto blown =
      Compile(AnswerFormat::Kind::kJsonSchema, R"({"type":"string","pattern":"^[ab]*a[ab]{40}$","maxLength":900})");
  EXPECT_NE(blown.status().message().find("too large"), std::string::npos) << blown.status().message();
}

TEST(JsonSchema, ManyOptionalMembers) {
  std::string schema = R"({"type":"object","properties":{)", all, some;
  for (int i = 0; i < 200; ++i) {
    const std::string name = "\"p" + std::to_string(i) + "\"";
    schema += (i > 0 ? "," : "") + name + R"(:{"type":"integer"})";
    all += (i > 0 ? "," : "") + name + ":" + std::to_string(i);
    if (i % 7 == 3) some += (some.empty() ? "" : ",") + name + ":1";
  }
  const auto grammar = Compile(AnswerFormat::Kind::kJsonSchema, schema + "}}");
  ASSERT_TRUE(grammar.ok()) << grammar.status().message();
  EXPECT_TRUE(Matches(*grammar, "{" + all + "}"));
  EXPECT_TRUE(Matches(*grammar, "{" + some + "}"));
  EXPECT_FALSE(Matches(*grammar, R"({"p3":1,"p2":1})"));
}

TEST(JsonSchema, AnyObject) {
  const auto grammar = Compile(AnswerFormat::Kind::kJsonObject, "");
  ASSERT_TRUE(grammar.ok());
  for (const char* text : {"{}", R"({"a":[1,2.5,"x",null,{"b":{}}]})"}) EXPECT_TRUE(Matches(*grammar, text)) << text;
  for (const char* text : {"[]", "1", "", "{", R"({"a"})"}) EXPECT_FALSE(Matches(*grammar, text)) << text;
}

}  // namespace
}  // namespace ringside
