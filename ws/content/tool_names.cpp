#include "ws/content/tool_names.h"

#include <algorithm>

#include "ws/json/json_value.h"
#include "ws/json/json_writer.h"

namespace ringside {

std::string ModelToolName(const ClientTool& tool) {
  const std::string_view space = tool.custom ? kCustomSpace : tool.space;
  return space.empty() ? std::string(tool.name) : std::string(space) + '.' + std::string(tool.name);
}

ClientTool ClientToolOf(std::string_view model_name) {
  const size_t dot = model_name.find('.');
  if (dot == std::string_view::npos) return {.name = model_name};
  const std::string_view space = model_name.substr(0, dot), name = model_name.substr(dot + 1);
  if (space == kCustomSpace) return {.name = name, .custom = true};
  return {.space = space, .name = name};
}

std::string CustomArguments(std::string_view input) {
  JsonWriter text;
  return R"({"input": )" + text.Value(input).Take() + '}';
}

std::string CustomInput(std::string_view arguments) {
  constexpr size_t kLongestEscape = 12;  // of a surrogate pair
  const auto input_of = [](const std::string& json) -> const JsonValue {
    const Result<JsonValue> value = ParseJson(json);
    const JsonValue* const input = value.ok() ? value->Find("input") : nullptr;
    return input != nullptr ? *input : JsonValue();
  };
  if (const JsonValue input = input_of(std::string(arguments)); input.is_string()) return input.string();
  // The text may have been cut inside an escape or a character.
  for (size_t cut = 0; cut <= std::min(kLongestEscape, arguments.size()); ++cut) {
    const JsonValue input = input_of(std::string(arguments.substr(0, arguments.size() - cut)) + "\"}");
    if (input.is_string()) return input.string();
  }
  return "";
}

}  // namespace ringside
