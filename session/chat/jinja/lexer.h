// A template's source as lexemes, in the spelling that transformers reads templates in: trim_blocks, lstrip_blocks, one
// newline dropped at the end.
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
  std::string text;  // of kData and kText what they say, their escapes resolved; else as it is written
  int line = 1;
};

/// kInvalidArgument, with the line, where the source has no lexemes. The last one is kEnd.
Result<std::vector<Lexeme>> ReadLexemes(std::string_view source);

/// "line 3: what"
Status SyntaxError(int line, const std::string& what);

}  // namespace ringside::jinja
