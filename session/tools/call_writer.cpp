#include "session/tools/call_writer.h"

#include <nlohmann/json.hpp>

#include "base/json/json_tree.h"

namespace ringside {
namespace {

using OrderedJson = nlohmann::ordered_json;

std::string PythonLiteral(const OrderedJson& value) {
  if (value.is_null()) return "None";
  if (value.is_boolean()) return value.get<bool>() ? "True" : "False";
  if (!value.is_structured()) return value.dump();
  std::string out;
  for (const auto& [key, member] : value.items()) {
    if (!out.empty()) out += ", ";
    if (value.is_object()) out += OrderedJson(key).dump() + ": ";
    out += PythonLiteral(member);
  }
  return value.is_object() ? '{' + out + '}' : '[' + out + ']';
}

/// (a="x", b=1); arguments that are no object stay as they are.
std::string PythonArguments(const std::string& arguments) {
  const OrderedJson object = ParseOrderedJsonTree(arguments);
  if (!object.is_object()) return arguments;
  std::string out;
  for (const auto& [key, value] : object.items()) out += (out.empty() ? "" : ", ") + key + '=' + PythonLiteral(value);
  return '(' + out + ')';
}

}  // namespace

std::string WriteCalls(const ToolSyntax& syntax, std::span<const ToolCall> calls,
                       const std::function<std::string(std::string_view)>& change) {
  const auto changed = [&](const std::string& text) { return change ? change(text) : text; };
  std::string out;
  for (const ToolCall& call : calls) {
    out += out.empty() ? syntax.opening : syntax.next;
    out += changed(call.name);
    out += syntax.before_arguments;
    out += changed(syntax.has_json() ? call.arguments : PythonArguments(call.arguments));
    out += syntax.after_arguments;
  }
  return out.append(syntax.close);
}

}  // namespace ringside
