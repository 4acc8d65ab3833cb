// Transcodes one value of a call's arguments to JSON, byte by byte, from JSON, Python literals or Gemma literals. The
// output is always a prefix of one valid JSON value.
// THREAD: one at a time.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "engine/grammar/tools/tool_syntax.h"

namespace ringside {

/// Appends a byte of a JSON string's content, escaped where JSON requires it.
void AppendEscaped(char c, std::string* json);

/// Finds the text that ends a value, across input pieces. Buffers at most that text's length.
class EndFinder {
 public:
  explicit EndFinder(std::string_view end) : end_(end) {}
  /// Consumes a byte and appends to `passed` the bytes that do not belong to the end. True: the end is complete.
  bool Read(char c, std::string* passed);

 private:
  std::string_view end_;
  std::string held_;  // a proper prefix of `end_`
};

class ValueReader {
 public:
  using Form = ToolSyntax::Arguments::Form;
  enum class Next {
    kMore,
    kDone,         // this byte ends the value
    kBehind,       // the value ended before this byte, which is not consumed
    kInvalidByte,  // the byte cannot start or continue a value
  };

  /// `arguments`: the value is the whole object of arguments, (a=1) in Python. kTagged reads JSON.
  explicit ValueReader(Form form, bool arguments = false) : form_(form), arguments_(arguments) {}

  /// Consumes a byte and appends the resulting JSON. Skips white space around values.
  Next Read(char c, std::string* json);

 private:
  enum class State : unsigned char {
    kValue,       // expects a value
    kFirstValue,  // expects a value or the end of the list
    kFirstKey,    // expects a key or the end of the object
    kKey,
    kBareKey,  // inside an unquoted key
    kColon,
    kComma,  // expects a comma or a closing bracket
    kString,
    kEscape,
    kUnicode,
    kQuote,  // inside the opening quote of a Gemma string
    kWord,   // inside a number or a name
    kEnded,
  };

  Next BeginValue(char c, std::string* json);
  Next BeginKey(char c, std::string* json);
  Next Open(char c, std::string* json);
  Next Close(char c, std::string* json);
  Next EndValue();
  Next BeginString(char c, std::string* json);
  Next ReadBareKey(char c, std::string* json);
  Next ReadString(char c, std::string* json);
  Next ReadEscape(char c, std::string* json);
  Next ReadUnicode(char c, std::string* json);
  Next ReadWord(char c, std::string* json);
  Next ReadSeparator(char c, std::string* json);
  bool bare_keys() const;

  const Form form_;
  const bool arguments_;
  State state_ = State::kValue;
  std::string open_;        // closing brackets of the open lists and objects, innermost last
  bool in_key_ = false;     // the current string is a key
  char quote_ = '"';        // closing quote of the current string
  std::string word_;        // current number, name, key or hexadecimal digits
  bool high_half_ = false;  // a high surrogate, whose low half must follow
  EndFinder gemma_end_ = EndFinder("<|\"|>");
};

}  // namespace ringside
