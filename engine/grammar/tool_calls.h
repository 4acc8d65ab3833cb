// Tool calls as a model writes them into its answer, and which of them an answer may or must have. One way of writing
// them serves every chat template: that of Hermes, which Qwen's models were trained on. A call is
//
//   <tool_call>\n{"name": "NAME", "arguments": {...}}\n</tool_call>
//
// behind the answer's text, if it has any, and one newline; further calls stand behind a newline each. Plain values.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "engine/grammar/grammar_source.h"

namespace ringside {

namespace tool_call_syntax {
inline constexpr std::string_view kOpen = "<tool_call>";
inline constexpr std::string_view kBeforeName = "\n{\"name\": \"";  // behind kOpen
inline constexpr std::string_view kBeforeArguments = "\", \"arguments\": ";
inline constexpr std::string_view kBehindArguments = "}\n";
inline constexpr std::string_view kClose = "</tool_call>";
inline constexpr char kBetween = '\n';  // between text and calls, and between calls
inline constexpr size_t kMaxNameBytes = 64;
}  // namespace tool_call_syntax

/// A name that calls can be written with: 1 to 64 of the characters A-Z a-z 0-9 _ -
bool IsToolName(std::string_view name);

/// What an answer may call.
struct ToolCallRules {
  /// A line each, as templates print them: {"type": "function", "function": {"name": ..., "parameters": ...}}.
  std::string tools;
  /// By tool: a schema that no grammar can be made of is refused. Elsewhere such a tool's arguments are any object.
  std::vector<bool> strict;
  bool any_arguments = false;      // the arguments of tools that are not strict are any object, whatever their schema
  std::vector<std::string> names;  // these tools only; none = all
  bool may_call = true;            // false: the answer is text
  bool must_call = false;          // the answer is calls alone
  bool several = true;             // more than one
  /// The wire's name of a tool's schema behind "tools[3]", for errors.
  std::string schema_param = ".parameters";
};

/// Adds what an answer under these rules is: text without calls, and calls with the arguments that their schemas take.
/// With `answer`, an answer that is no call is that instead of any text. kInvalidArgument with `param`.
Result<ExpressionId> AddToolCalls(const ToolCallRules& rules, const ExpressionId* answer, GrammarSource* source);

}  // namespace ringside
