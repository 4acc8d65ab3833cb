// Templates equal jinja2's renderings, see tests/golden/make_jinja_golden.py; refusals and limits.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "session/chat/jinja/template.h"
#include "session/chat/templates/json_value.h"
#include "tests/golden_folder.h"

namespace ringside {
namespace {

using OrderedJson = nlohmann::ordered_json;
using testing::HasSubstr;

std::tm SomeDay() {
  std::tm day{};
  day.tm_year = 2024 - 1900;
  day.tm_mon = 6;
  day.tm_mday = 9;
  day.tm_hour = 13;
  day.tm_min = 5;
  day.tm_wday = 2;
  return day;
}

Result<std::string> Rendered(std::string_view source, const jinja::Variables& variables = {},
                             const jinja::RenderLimits& limits = {}) {
  ASSIGN_OR_RETURN(const jinja::Template parsed, jinja::Template::Parse(source));
  return parsed.Render(variables, SomeDay(), limits);
}

jinja::Variables VariablesOf(const OrderedJson& context) {
  jinja::Variables variables;
  for (const auto& [name, value] : context.items()) variables.emplace_back(name, ValueOfJson(value.dump()).value());
  return variables;
}

TEST(Jinja, EqualsJinja2) {
  std::ifstream file(GoldenFolder("jinja/") + "golden.json");
  const OrderedJson golden = OrderedJson::parse(file);
  const jinja::Variables variables = VariablesOf(golden.at("context"));
  int rendered = 0, refused = 0;
  for (const OrderedJson& one : golden.at("cases")) {
    const std::string source = one.at(0);
    const Result<std::string> text = Rendered(source, variables);
    if (one.at(1).is_null()) {
      EXPECT_FALSE(text.ok()) << source << "\ngave " << testing::PrintToString(*text);
      ++refused;
    } else if (!text.ok()) {
      ADD_FAILURE() << source << "\n" << text.status().ToString() << "\nwanted " << one.at(1);
    } else {
      EXPECT_EQ(*text, one.at(1).get<std::string>()) << source;
      ++rendered;
    }
  }
  EXPECT_GT(rendered, 1800);
  EXPECT_GT(refused, 400);
}

// Unsupported constructs are refused when the template is parsed, with their line.
TEST(Jinja, RefusesUnsupportedConstructsByName) {
  const std::pair<const char*, const char*> sources[] = {
      {"a\n{% include 'x' %}", "line 2: 'include'"},
      {"{% import 'x' as y %}", "'import'"},
      {"{% from 'x' import y %}", "'from'"},
      {"{% extends 'x' %}", "'extends'"},
      {"{% block x %}{% endblock %}", "'block'"},
      {"{% for x in y recursive %}{% endfor %}", "recursive"},
      {"\n\n{{ x | pprint }}", "line 3: there is no filter 'pprint'"},
      {"{{ x is weird }}", "there is no test 'weird'"},
      {"{% frobnicate %}", "there is no statement 'frobnicate'"},
      {"{{ f(*x) }}", "'*'"},
      {"{{ f(**x) }}", "'**'"},
      {"{{ cycler(1) }}", "'cycler'"},
      {"{% macro m() %}{{ varargs }}{% endmacro %}", "'varargs'"},
      {"{{ 99999999999999999999 }}", "too large"},
      {"{% if x %}", "there is no 'endif'"},
  };
  for (const auto& [source, words] : sources) {
    const auto parsed = jinja::Template::Parse(source);
    ASSERT_FALSE(parsed.ok()) << source;
    EXPECT_EQ(parsed.status().code(), StatusCode::kInvalidArgument);
    EXPECT_THAT(parsed.status().message(), HasSubstr(words));
  }
  EXPECT_FALSE(jinja::Template::Parse(std::string(2 << 20, 'x')).ok());
}

// As in jinja2: a branch that never runs may use unknown filters and tests.
TEST(Jinja, UnknownFilterFailsOnlyWhenItRuns) {
  for (const char* source :
       {"{% if x %}{{ x | pprint }}{% endif %}y", "{% if x is defined %}{{ x is weird }}{% endif %}y",
        "{% if not x %}{% else %}{% for i in x %}{{ i | pprint }}{% endfor %}{% endif %}y"}) {
    EXPECT_EQ(Rendered(source).value(), "y") << source;
    const Result<std::string> run = Rendered(source, {{"x", "text"}});
    EXPECT_THAT(run.status().message(), testing::ContainsRegex("line 1: there is no (filter 'pprint'|test 'weird')"));
  }
  EXPECT_FALSE(jinja::Template::Parse("{% if x %}{% endif %}{{ x | pprint }}").ok());
}

TEST(Jinja, NothingIsReached) {
  const jinja::Variables variables = {{"s", "x"}, {"l", jinja::MakeList({int64_t{1}}).value()}};
  for (const char* expression : {"s.__class__", "s['__class__']", "l.__class__.__base__", "l._x", "{}.pop(1)",
                                 "[].pop()", "[].remove(1)", "{}.popitem()", "namespace().__class__",
                                 "s.format.__globals__", "'{0.__class__}'.format(s)", "s.upper.__self__"}) {
    EXPECT_FALSE(Rendered("{{ " + std::string(expression) + " }}", variables).ok()) << expression;
  }
  // Names with an underscore are reachable only as keys of a mapping.
  EXPECT_EQ(Rendered("{{ {'_x': 1}._x }}").value(), "1");
}

TEST(Jinja, ListsAndDictsAreChangedInTheirPlaces) {
  const jinja::Variables variables = {{"l", jinja::MakeList({int64_t{1}}).value()}};
  const std::pair<const char*, const char*> cases[] = {
      {"{% set _ = l.append(2) %}{{ l }}{{ l.pop() }}{{ l.pop(0) }}{{ l }}", "[1, 2]21[]"},
      {"{% set x = [] %}{% for i in range(3) %}{% set _ = x.append(i) %}{% endfor %}{{ x }}", "[0, 1, 2]"},
      {"{% set ns = namespace(x=[]) %}{% set _ = ns.x.extend([3, 1]) %}{% set _ = ns.x.insert(-1, 2) %}{{ ns.x }}",
       "[3, 2, 1]"},
      {"{% set d = {'a': {'b': []}} %}{% set _ = d.a['b'].append('c') %}{{ d }}", "{'a': {'b': ['c']}}"},
      {"{% set d = [[1], [2]] %}{% set _ = d[-1].append(3) %}{{ d }}", "[[1], [2, 3]]"},
      {"{% set d = {'a': 1} %}{{ d.setdefault('b', 2) }}{{ d.setdefault('a', 9) }}{{ d.pop('a') }}{{ d.pop('z', 0) "
       "}}{{ d }}",
       "2110{'b': 2}"},
      {"{% set d = {} %}{% set _ = d.update({'a': 1}, b=2) %}{{ d }}{{ d.popitem() }}", "{'a': 1, 'b': 2}('b', 2)"},
      {"{{ [1].append(2) }}{% set x = [2, 1] %}{% set _ = x.reverse() %}{% set _ = x.remove(2) %}{{ x }}", "None[1]"},
  };
  for (const auto& [source, text] : cases) {
    const auto rendered = Rendered(source, variables);
    ASSERT_TRUE(rendered.ok()) << source << ": " << rendered.status().ToString();
    EXPECT_EQ(*rendered, text) << source;
  }
  EXPECT_EQ(Rendered("{{ l }}", variables).value(), "[1]") << "the caller's values stay";
}

TEST(Jinja, GrowingListsIsBounded) {
  EXPECT_FALSE(Rendered("{% set x = [0] %}{% for i in range(100000) %}{% set _ = x.extend(x) %}{% endfor %}").ok());
  EXPECT_FALSE(Rendered("{% set x = [] %}{% for i in range(100) %}{% set _ = x.append(x) %}{% endfor %}").ok());
}

TEST(Jinja, ErrorsNameTheLineAndRefusalsAreDistinct) {
  EXPECT_THAT(Rendered("a\n{% if true %}\n{{ x.y }}{% endif %}").status().message(),
              HasSubstr("line 3: 'x' is undefined"));
  const Status refused = Rendered("{{ raise_exception('no tools') }}").status();
  EXPECT_EQ(refused.reason(), jinja::kRaisedByTemplate);
  EXPECT_THAT(refused.message(), HasSubstr("no tools"));
  EXPECT_EQ(Rendered("{{ 1 / 0 }}").status().reason(), "");
}

TEST(Jinja, WorkAndMemoryAreBounded) {
  const jinja::RenderLimits limits{.steps = 200000, .bytes = 1 << 20};
  const std::string twelve = "{% for a in range(99999) %}";
  for (const std::string& source : {
           twelve + twelve + "x{% endfor %}{% endfor %}",
           std::string("{{ 'x' * 9000000000000000000 }}"),
           std::string("{{ 'xy' * 600000 }}"),
           std::string("{{ [1] * 1000000000 }}"),
           std::string("{% set n = namespace(s='x') %}{% for i in range(99) %}{% set n.s = n.s ~ n.s %}{% endfor %}"),
           std::string("{% set n = namespace(l=[1]) %}{% for i in range(99) %}{% set n.l = n.l + n.l %}{% endfor %}"),
           std::string(
               "{% set n = namespace(l=[1]) %}{% for i in range(60) %}{% set n.l = [n.l, n.l] %}{% endfor %}{{ n.l }}"),
           std::string("{% set n = namespace(l=[1]) %}{% for i in range(60) %}{% set n.l = [n.l, n.l] %}{% endfor %}{{ "
                       "n.l == [1] }}{{ n.l == n.l[0] }}{{ n.l | tojson }}"),
           std::string("{% set n = namespace(l=[]) %}{% for i in range(9999) %}{% set n.l = [n.l] %}{% endfor %}"),
           std::string(
               "{% set n = namespace(l=[]) %}{% for i in range(9999) %}{% set n.l = [n.l.index] %}{% endfor %}"),
           std::string("{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}"),
           std::string("{% macro m() %}{% macro q() %}{{ m() }}{% endmacro %}{{ q() }}{% endmacro %}{{ m() }}"),
           std::string("{% set n = namespace() %}{% macro m() %}{% macro q() %}{% macro r() %}{% set n.m = q %}{% "
                       "endmacro %}{% set n.m = r %}{% endmacro %}{% set n.m = q %}{% endmacro %}{% set n.m = m %}{% "
                       "for i in range(99999) %}{{ n.m() }}{% endfor %}"),
           std::string("{{ 'a'.replace('', 'x' * 1000000) }}"),
           std::string("{{ ('a' * 100000).replace('a', 'b' * 100000) }}"),
           std::string("{{ 'x' | center(90000000000) }}"),
           std::string("{{ 'x'.ljust(90000000000) }}"),
           std::string("{{ 'a' | indent(90000000000) }}"),
           std::string("{{ '%999999999d' % 1 }}"),
           std::string("{{ [[[[]]]] | tojson(indent=99999999) }}"),
           std::string("{{ 9223372036854775807 + 1 }}"),
           std::string("{{ 2 ** 64 }}"),
           std::string("{{ -9223372036854775807 - 2 }}"),
           std::string("{{ range(0, 9223372036854775807) }}"),
       }) {
    EXPECT_FALSE(Rendered(source, {}, limits).ok()) << source;
  }
  EXPECT_EQ(Rendered("{{ (-9223372036854775807 - 1) // -1 if false else (-9223372036854775807 - 1) % -1 }}").value(),
            "0");
  EXPECT_FALSE(Rendered("{{ (-9223372036854775807 - 1) // -1 }}").ok());
}

TEST(Jinja, RefusesDeepNesting) {
  const auto repeated = [](const std::string& text, int times) {
    std::string all;
    for (int i = 0; i < times; ++i) all += text;
    return all;
  };
  for (const int depth : {200, 20000}) {
    for (const auto& [open, middle, close] : std::vector<std::array<std::string, 3>>{{"(", "1", ")"},
                                                                                     {"[", "", "]"},
                                                                                     {"{'a':", "1", "}"},
                                                                                     {"-", "1", ""},
                                                                                     {"not ", "1", ""},
                                                                                     {"1 + ", "1", ""},
                                                                                     {"1 if x else ", "1", ""},
                                                                                     {"x[", "1", "]"},
                                                                                     {"f(", "", ")"},
                                                                                     {"", "x", ".y"},
                                                                                     {"", "x", "|upper"}}) {
      const std::string expression = repeated(open, depth) + middle + repeated(close, depth);
      EXPECT_FALSE(jinja::Template::Parse("{{ " + expression + " }}").ok()) << open << close;
    }
    for (const auto& [open, close] :
         std::vector<std::array<std::string, 2>>{{"{% if x %}", "{% endif %}"},
                                                 {"{% for x in y %}", "{% endfor %}"},
                                                 {"{% set x %}", "{% endset %}"},
                                                 {"{% macro m() %}", "{% endmacro %}"},
                                                 {"{% filter upper %}", "{% endfilter %}"}}) {
      EXPECT_FALSE(jinja::Template::Parse(repeated(open, depth) + repeated(close, depth)).ok()) << open;
    }
  }
  EXPECT_FALSE(ValueOfJson(repeated("[", 100000)).ok());
  EXPECT_FALSE(ValueOfJson(repeated("[", 1000) + repeated("]", 1000)).ok());
}

TEST(Jinja, ParsesEveryTemplatePrefixSafely) {
  const std::string source =
      "{%- set ns = namespace(a=1) -%}{# c #}{% for m in ms if m.x %}{{ m['y'] | trim ~ 'a\\n' }}{% else %}{% raw %}{{"
      "{% endraw %}{% endfor %}{% macro f(a, b=1) %}{{ a[1:2] }}{% endmacro %}{% call f('xyz') %}{% endcall %}";
  EXPECT_TRUE(Rendered(source).ok());
  for (size_t size = 0; size < source.size(); ++size) {
    const std::vector<char> bytes(source.begin(),
                                  source.begin() + static_cast<ptrdiff_t>(size));  // with nothing after it
    (void)Rendered({bytes.data(), bytes.size()});
  }
}

TEST(Jinja, JsonBecomesValues) {
  const jinja::Value value = ValueOfJson(R"({"b": [1, 2.5, null, true, "\u4f60"], "a": 18446744073709551615})").value();
  EXPECT_EQ(jinja::ToText(value).value(), "{'b': [1, 2.5, None, True, '你'], 'a': 1.8446744073709552e+19}");
  EXPECT_FALSE(ValueOfJson("{").ok());
}

}  // namespace
}  // namespace ringside
