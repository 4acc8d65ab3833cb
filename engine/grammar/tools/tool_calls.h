// The tool calls that an answer may or must contain, as a grammar; the syntax defines how they are written
// (tool_syntax.h). Plain values.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "engine/grammar/grammar_source.h"
#include "engine/grammar/tools/tool_syntax.h"

namespace ringside {

inline constexpr size_t kMaxToolNameBytes = 64;       // a client's tool name
inline constexpr size_t kMaxCallableNameBytes = 129;  // a name in a call

/// A valid tool name from a client: 1 to 64 of the characters A-Z a-z 0-9 _ -
bool IsToolName(std::string_view name);
/// A name that can be called: a tool's name, or two such names joined by a '.'.
bool IsCallableName(std::string_view name);

/// The calls that an answer may contain.
struct ToolCallRules {
  /// One line per tool, as templates print them: {"type": "function", "function": {"name": ..., "parameters": ...}}.
  std::string tools;
  /// By tool: an unsupported schema is an error. Without `strict`, such a tool's arguments are any object.
  std::vector<bool> strict;
  bool any_arguments = false;      // arguments of tools without `strict` are any object
  std::vector<std::string> names;  // only these tools; empty = all
  bool may_call = true;            // false: the answer is text
  bool must_call = false;          // the answer consists of calls alone
  bool several = true;             // more than one call, if the syntax allows it
  /// Wire path of each tool, "tools[2].tools[0]", for errors; empty: tools[i].
  std::vector<std::string> places = {};
  /// Wire name of a tool's schema, appended to its path.
  std::string schema_param = ".parameters";
  ToolSyntaxName syntax = ToolSyntaxName::kHermes;
};

/// The recipients of calls in harmony's headers, "functions.NAME", as a regular expression; "" = no tool may be called.
std::string RecipientPattern(const ToolCallRules& rules);

/// Adds the grammar of an answer under these rules: text without calls, and calls with arguments under their schemas.
/// With `answer`, an answer without calls matches that instead of any text. ERRORS: kInvalidArgument with `param`.
Result<ExpressionId> AddToolCalls(const ToolCallRules& rules, const ExpressionId* answer, GrammarSource* source);

}  // namespace ringside
