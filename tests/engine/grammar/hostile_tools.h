// The most expensive kinds of tools, each set about as large as a request allows: for the limit tests and the
// benchmark. Values.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace ringside {

struct HostileTools {
  const char* name;
  std::string lines;  // as in ToolCallRules
  size_t count;
};

inline std::string Repeated(size_t count, const std::string& between, auto part) {
  std::string all;
  for (size_t i = 0; i < count; ++i) all += (i > 0 ? between : "") + part(i);
  return all;
}

inline std::string ToolOf(size_t number, const std::string& parameters) {
  return R"({"type": "function", "function": {"name": "tool)" + std::to_string(number) + R"(", "parameters": )" +
         parameters + "}}";
}

inline std::string ObjectOf(const std::string& properties, const std::string& more = "") {
  return R"({"type":"object","properties":{)" + properties + "}" + more + "}";
}

/// 128 tools of 30 properties each, nested three deep: large, but realistic.
inline std::string LargeTools() {
  const auto property = [](size_t i) {
    static const char* const kSchemas[] = {R"({"type":"string"})", R"({"type":"integer","minimum":0})",
                                           R"({"enum":["a","b","c"]})", R"({"type":"array","items":{"type":"string"}})",
                                           R"({"type":"boolean"})"};
    return "\"p" + std::to_string(i) + "\":" + kSchemas[i % 5];
  };
  const auto ten = [&](size_t from, const std::string& last) {
    return Repeated(10 - (last.empty() ? 0 : 1), ",", [&](size_t i) { return property(from + i); }) + last;
  };
  const std::string inner = ObjectOf(ten(20, ""), R"(,"required":["p20"],"additionalProperties":false)");
  const std::string middle =
      ObjectOf(ten(10, ",\"in\":" + inner), R"(,"required":["in"],"additionalProperties":false)");
  const std::string whole = ObjectOf(ten(0, ",\"in\":" + middle), R"(,"required":["in"],"additionalProperties":false)");
  return Repeated(128, "\n", [&](size_t i) { return ToolOf(i, whole); });
}

inline std::vector<HostileTools> AllHostileTools() {
  const auto each = [](size_t count, auto parameters) {
    return Repeated(count, "\n", [&](size_t i) { return ToolOf(i, parameters(i)); });
  };
  const auto names = [](size_t count, const std::string& schema) {
    return Repeated(count, ",", [&](size_t i) { return "\"n" + std::to_string(i) + "\":" + schema; });
  };
  std::string nested = "true";
  for (int i = 0; i < 25; ++i) nested = ObjectOf("\"a\":" + nested + ",\"b\":{\"type\":\"string\"}");
  return {
      {"large", LargeTools(), 128},
      {"bounded strings",
       each(128, [&](size_t) { return ObjectOf(names(30, R"({"type":"string","maxLength":60000})")); }), 128},
      {"bounded arrays in arrays",
       each(
           128,
           [&](size_t) {
             return ObjectOf(names(
                 10,
                 R"({"type":"array","maxItems":60000,"items":{"type":"array","maxItems":60000,"items":{"type":"string"}}})"));
           }),
       128},
      {"many names left out", each(32, [&](size_t) { return ObjectOf(names(500, "true")); }), 32},
      {"patterns",
       each(128,
            [&](size_t i) {
              return ObjectOf(
                  names(20, R"({"type":"string","pattern":"(a|b)*a(a|b){)" + std::to_string(10 + i % 8) + "}\"}"));
            }),
       128},
      {"alternatives that overlap",
       each(16,
            [&](size_t) {
              return ObjectOf("\"x\":{\"oneOf\":[" +
                              Repeated(100, ",",
                                       [](size_t i) {
                                         return ObjectOf(
                                             "\"k\":{\"const\":" + std::to_string(i) + R"(},"v":{"type":"string"})",
                                             R"(,"required":["k"])");
                                       }) +
                              "]}");
            }),
       16},
      {"long enums",
       each(8,
            [&](size_t tool) {
              return ObjectOf("\"x\":{\"enum\":[" +
                              Repeated(2500, ",",
                                       [&](size_t i) {
                                         return '"' + std::to_string(tool) + std::string(i % 4, 'x') +
                                                std::to_string(i * 7919) + '"';
                                       }) +
                              "]}");
            }),
       8},
      {"nested", each(60, [&](size_t) { return nested; }), 60},
      {"long names around many",
       each(1,
            [&](size_t) {
              std::string inside = ObjectOf(names(20000, "{}"));
              for (int i = 0; i < 25; ++i) inside = ObjectOf('"' + std::string(250, 'n') + "\":" + inside);
              return inside;
            }),
       1},
      {"references",
       each(1,
            [&](size_t) {
              return R"({"type":"object","properties":{"x":{"$ref":"#/$defs/d0"}},"$defs":{)" +
                     Repeated(2500, ",",
                              [](size_t i) {
                                const std::string next = std::to_string((i + 1) % 2500);
                                return "\"d" + std::to_string(i) +
                                       R"(":{"anyOf":[{"type":"null"},{"type":"array","items":{"$ref":"#/$defs/d)" +
                                       next + R"("}}]})";
                              }) +
                     "}}";
            }),
       1},
  };
}

}  // namespace ringside
