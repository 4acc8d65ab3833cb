// In what form an answer is asked for, as text: what a client says and a grammar is made of. A plain value.
#pragma once

#include <cstdint>
#include <string>

namespace ringside {

struct AnswerFormat {
  enum class Kind : uint8_t { kText, kJsonObject, kJsonSchema, kRegex, kGbnf };
  Kind kind = Kind::kText;  // any text
  std::string text;         // the schema (JSON), regular expression or grammar
  std::string param;        // the wire's name of it, for errors

  bool free() const { return kind == Kind::kText; }
};

}  // namespace ringside
