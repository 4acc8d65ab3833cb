// The requested format of an answer, as text: the client's input from which a grammar is made. A plain value.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "engine/grammar/tools/tool_calls.h"

namespace ringside {

struct AnswerFormat {
  enum class Kind : uint8_t { kText, kJsonObject, kJsonSchema, kRegex, kGbnf };
  Kind kind = Kind::kText;  // any text
  std::string text;         // schema (JSON), regular expression or grammar
  std::string param;        // its wire name, for errors
  std::string name;         // a schema's name, returned to the client and otherwise unused

  std::shared_ptr<const ToolCallRules> calls;  // null: text that looks like a call is text

  bool free() const { return kind == Kind::kText && calls == nullptr; }
};

}  // namespace ringside
