// Arguments of one tool call in a syntax that does not write them as JSON, transcoded to a JSON object byte by byte.
// One thread at a time.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "engine/grammar/tools/parameter_types.h"
#include "engine/grammar/tools/tool_syntax.h"

namespace ringside {

class ArgumentReader {
 public:
  enum class Next { kMore, kDone, kMisfit };

  virtual ~ArgumentReader() = default;
  /// Reads a byte and appends the JSON that follows from it; with tags, after a '{' that the caller has written. At
  /// kDone `json` is a whole object; at kMisfit the text is no call of the syntax, and the reader is of no further use.
  /// Pieces of characters are never appended alone if every piece of the text ends with a whole one.
  virtual Next Read(char c, std::string* json) = 0;
};

/// A reader of the arguments of `tool`. With tags it reads the syntax's `behind_arguments` as well. `types` may be
/// null: then all values in tags are strings. Not for kJson.
std::unique_ptr<ArgumentReader> MakeArgumentReader(const ToolSyntax& syntax,
                                                   std::shared_ptr<const ParameterTypes> types, std::string_view tool);

}  // namespace ringside
