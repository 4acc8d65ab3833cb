// Splits a template's source into lexemes, with transformers' settings: trim_blocks, lstrip_blocks, one newline removed
// at the end.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace ringside::jinja {

struct Lexeme {
  enum class Kind {
    kData,
    kBeginOutput,
    kEndOutput,
    kBeginBlock,
    kEndBlock,
    kName,
    kText,
    kInteger,
    kFloat,
    kSign,
    kEnd
  };
  Kind kind = Kind::kEnd;
  std::string text;  // kData and kText: the contents, escapes resolved; others: as written
  int line = 1;
};

/// ERRORS: kInvalidArgument, with the line, for invalid source. The last lexeme is kEnd.
Result<std::vector<Lexeme>> ReadLexemes(std::string_view source);

/// "line 3: what"
Status SyntaxError(int line, const std::string& what);

}  // namespace ringside::jinja
