// A template and its variables: any source, any JSON. Input: the source, then the variables as one JSON object.
#include "session/chat/jinja/template.h"
#include "session/chat/templates/json_value.h"
#include "tests/fuzz/fuzz_target.h"

namespace ringside {

std::vector<std::string> Seeds() {
  const std::string variables =
      R"({"messages": [{"role": "user", "content": "Hi <|x|>"}, {"role": "assistant", "content": "<think>a</think> b"}],)"
      R"( "s": "two words", "l": [3, 1.5, null, true], "tools": [{"name": "f", "parameters": {"type": "object"}}]})";
  std::vector<std::string> seeds;
  for (const std::string name : {"chatml", "gemma3", "llama2", "llama3.1_tools", "mistral_v3_tools", "phi4",
                                 "qwen2.5_tools", "qwen3", "zephyr"}) {
    seeds.push_back(JoinParts({ReadGolden("chat_template/" + name + ".jinja"), variables}));
  }
  for (const std::string source :
       {"{% macro m(a, b=1) %}{{ caller(a) }}{% endmacro %}{% call(x) m(2) %}{{ x }}{% endcall %}",
        "{% set ns = namespace(n=0) %}{% for x in l if ns.n < 2 %}{% set ns.n = ns.n + 1 %}{{ loop.last }}{% endfor %}",
        "{{ s.split(' ')[::-1] | join('-') }}{{ '%s' % s }}{{ '{}'.format(1) }}{{ tools | tojson(indent=2) }}",
        "{{ l | map('string') | select('in', s) | list }}{{ l | sort }}{{ messages | selectattr('role') | first }}",
        "{% filter upper %}{% raw %}{{ x }}{% endraw %}{% endfilter %}{{ s | indent(2) | replace('o', '0') }}",
        "{{ 7 // 2 ** 3 % 5 - -1 }}{{ 1 < 2 <= 3 }}{{ s[1:5:2] }}{{ s * 3 }}{{ strftime_now('%d %b %Y') }}"}) {
    seeds.push_back(JoinParts({source, variables}));
  }
  return seeds;
}

}  // namespace ringside

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace ringside;
  const std::vector<std::string_view> parts = SplitParts(data, size, 2);
  const Result<jinja::Template> parsed = jinja::Template::Parse(parts[0]);
  if (!parsed.ok()) {
    Require(parsed.status().code() == StatusCode::kInvalidArgument, "a source that is none is the caller's error");
    return 0;
  }
  jinja::Variables variables;
  const Result<jinja::Value> json = ValueOfJson(parts[1]);
  if (json.ok() && json->AsMapping() != nullptr) {
    for (const auto& [name, value] : json->AsMapping()->entries) variables.emplace_back(name.Text(), value);
  }
  constexpr size_t kMostBytes = 1 << 20;
  const Result<std::string> text = parsed->Render(variables, std::tm{}, {.steps = 20000, .bytes = kMostBytes});
  if (text.ok()) Require(text->size() <= kMostBytes, "a rendering is not longer than it may be");
  return 0;
}
