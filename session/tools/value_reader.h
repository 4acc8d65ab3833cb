// One value of a call's arguments, transcoded to JSON byte by byte: JSON, Python's or Gemma's literals. What it writes
// is the beginning of one valid JSON value at any byte. One thread at a time.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "engine/grammar/tools/tool_syntax.h"

namespace ringside {

/// Appends a byte of a JSON string's content, escaped where JSON requires it.
void AppendEscaped(char c, std::string* json);

/// Finds the text that ends a value, at any border between pieces. Holds at most that text's bytes.
class EndFinder {
 public:
  explicit EndFinder(std::string_view end) : end_(end) {}
  /// Takes a byte and appends to `passed` the bytes that are no part of an end. True: the end is whole.
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
    kDone,    // the value ends with this byte
    kBehind,  // it ended before this byte, which is not consumed
    kMisfit,  // no value begins like this
  };

  /// `arguments`: the value is the whole object of arguments, (a=1) in Python. kTagged reads JSON.
  explicit ValueReader(Form form, bool arguments = false) : form_(form), arguments_(arguments) {}

  /// Reads a byte and appends what follows from it. White space around values is skipped.
  Next Read(char c, std::string* json);

 private:
  enum class State : unsigned char {
    kValue,       // a value must follow
    kFirstValue,  // or the list ends
    kFirstKey,    // a key, or the object ends
    kKey,
    kBareKey,  // in one
    kColon,
    kComma,  // a comma or a bracket
    kString,
    kEscape,
    kUnicode,
    kQuote,  // in the opening quote of Gemma's strings
    kWord,   // in a number or a name
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
  std::string open_;        // closing brackets of the lists and objects around, the innermost last
  bool in_key_ = false;     // of the string that it is in
  char quote_ = '"';        // that ends it
  std::string word_;        // number, name, key or hexadecimal digits so far
  bool high_half_ = false;  // a surrogate whose other half must follow
  EndFinder gemma_end_ = EndFinder("<|\"|>");
};

}  // namespace ringside
