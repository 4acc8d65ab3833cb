// Names of tools: as clients give them, with a namespace perhaps, and the one by which the model knows a tool. No
// client's name holds a '.', so the model's name is unambiguous. Pure; any thread.
#pragma once

#include <string>
#include <string_view>

namespace ringside {

/// A tool as clients know it.
struct ClientTool {
  std::string_view space;  // its namespace; "" = none
  std::string_view name;
  bool custom = false;  // its input is a text, not an object
};

/// The namespace of custom tools among the model's names, which no client's may have.
inline constexpr std::string_view kCustomSpace = "custom";

/// "read", "files.read" or, of a custom tool, "custom.read".
std::string ModelToolName(const ClientTool& tool);
/// The tool of such a name, whose text it refers to.
ClientTool ClientToolOf(std::string_view model_name);

/// The arguments of a custom tool's call: {"input": "..."}.
std::string CustomArguments(std::string_view input);
/// The input of such arguments, as far as it is there where they were cut.
std::string CustomInput(std::string_view arguments);

}  // namespace ringside
