// Transcodes a tool call's arguments from a syntax other than JSON to a JSON object, byte by byte.
// THREAD: one at a time.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "engine/grammar/tools/parameter_types.h"
#include "engine/grammar/tools/tool_syntax.h"

namespace ringside {

class ArgumentReader {
 public:
  enum class Next { kMore, kDone, kInvalidByte };

  virtual ~ArgumentReader() = default;
  /// Consumes a byte and appends the resulting JSON; with tags, after a '{' written by the caller. At kDone `json` is a
  /// complete object. At kInvalidByte the text is not a call of the syntax, and the reader must not be used again.
  /// Never appends part of a character if every input piece ends with a complete one.
  virtual Next Read(char c, std::string* json) = 0;
};

/// Creates a reader of the arguments of `tool`; with tags it also reads the syntax's `after_arguments`. `types` may be
/// null: values in tags are then strings.
/// REQUIRES: the syntax is not kJson.
std::unique_ptr<ArgumentReader> MakeArgumentReader(const ToolSyntax& syntax,
                                                   std::shared_ptr<const ParameterTypes> types, std::string_view tool);

}  // namespace ringside
