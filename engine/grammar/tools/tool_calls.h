// Which tool calls an answer may or must have, as a grammar of it; how they are written is its syntax's business
// (tool_syntax.h). Plain values.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "engine/grammar/grammar_source.h"
#include "engine/grammar/tools/tool_syntax.h"

namespace ringside {

inline constexpr size_t kMaxToolNameBytes = 64;       // of a name that a client gives
inline constexpr size_t kMaxCallableNameBytes = 129;  // of one that calls are written with

/// A name that a client may give a tool: 1 to 64 of the characters A-Z a-z 0-9 _ -
bool IsToolName(std::string_view name);
/// A name that calls can be written with: a tool's name, or two such names joined by a '.'.
bool IsCallableName(std::string_view name);

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
  bool several = true;             // more than one, if the syntax has that
  /// The wire's place of each tool, "tools[2].tools[0]", for errors; of none: tools[i].
  std::vector<std::string> places = {};
  /// The wire's name of a tool's schema, appended to its place.
  std::string schema_param = ".parameters";
  ToolSyntaxName syntax = ToolSyntaxName::kHermes;
};

/// Adds what an answer under these rules is: text without calls, and calls with the arguments that their schemas take.
/// With `answer`, an answer that is no call is that instead of any text. kInvalidArgument with `param`.
Result<ExpressionId> AddToolCalls(const ToolCallRules& rules, const ExpressionId* answer, GrammarSource* source);

}  // namespace ringside
