// In what form an answer is asked for, as text: what a client says and a grammar is made of. A plain value.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "engine/grammar/tools/tool_calls.h"

namespace ringside {

struct AnswerFormat {
  enum class Kind : uint8_t { kText, kJsonObject, kJsonSchema, kRegex, kGbnf };
  Kind kind = Kind::kText;  // any text
  std::string text;         // the schema (JSON), regular expression or grammar
  std::string param;        // the wire's name of it, for errors
  std::string name;         // a schema's, which is repeated to the client and means nothing else

  std::shared_ptr<const ToolCallRules> calls;  // null: text that looks like a call is text

  bool free() const { return kind == Kind::kText && calls == nullptr; }
};

}  // namespace ringside
