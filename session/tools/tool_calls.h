// Parses tool calls in an answer's text, whole or incrementally, and writes them. The syntax is defined in
// engine/grammar/tools/tool_syntax.h: answers use their model's, calls supplied by clients use Hermes', and templates
// render their own. Text that resembles a call, or is inside a string, is text. Pure; a reader belongs to one thread at
// a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "engine/grammar/tools/parameter_types.h"
#include "engine/grammar/tools/tool_syntax.h"
#include "session/tools/argument_reader.h"

namespace ringside {

/// Where to look for calls in an answer's text.
enum class CallPlace : uint8_t {
  kNone,   // nowhere: everything is text
  kAny,    // after any text
  kStart,  // only at the start: strings inside a formatted answer are not calls
};

/// A part of the answer: bytes [begin, end) of the displayed text (ToolCallReader::Push).
struct CallPart {
  enum class Kind : uint8_t {
    kText,       // a piece of the text before the calls
    kCall,       // start of a call: its name
    kArguments,  // a piece of its arguments, JSON
    kCallEnd,    // its arguments are complete
  };
  Kind kind;
  size_t begin, end;
  friend bool operator==(const CallPart&, const CallPart&) = default;
};

class ToolCallReader {
 public:
  /// `types`: parameter types of the tools; only syntaxes with tags need them.
  explicit ToolCallReader(CallPlace place = CallPlace::kNone, ToolSyntaxName syntax = ToolSyntaxName::kHermes,
                          std::shared_ptr<const ParameterTypes> types = nullptr)
      : place_(place), syntax_(&SyntaxOf(syntax)), types_(std::move(types)) {}

  /// Consumes text. Holds back text that may become a call. Returns parts in order; text after a call that is not a
  /// call is dropped. `shown`, empty before the first piece, receives the displayed text: the input, except that calls
  /// whose arguments are not JSON are rewritten in Hermes syntax. It grows, but a call replaces its own markup.
  std::vector<CallPart> Push(std::string_view text, std::string* shown);
  /// Ends the text: returns held-back text that is not a call. An incomplete call stays open.
  std::vector<CallPart> Finish();

  bool in_call() const { return in_call_; }  // the arguments are incomplete or malformed
  /// True if calls are displayed in another syntax than the text's.
  bool transcodes() const { return place_ != CallPlace::kNone && !syntax_->has_json(); }
  /// Offset of the calls, including the newline before them; -1 if there are none so far.
  int64_t calls_at() const { return calls_at_; }

 private:
  enum class State : uint8_t { kText, kOpening, kName, kAfterName, kArguments, kClosing, kBetween, kRest };

  void Read(char c);
  void ReadText(char c);
  bool ReadMarkup(char c);
  bool ReadPattern(char c);
  void BeginName();
  bool ReadName(char c);
  void BeginCall();
  void ReadArguments(char c);
  void ReadOtherArguments(char c);
  void BeginClosing();
  bool weak_marker() const { return !syntax_->reserved && syntax_->before_arguments.empty(); }
  void Misfit(char c);
  void Enter(State state, std::string_view expected = {});
  void Emit(CallPart::Kind kind, size_t begin, size_t end);

  CallPlace place_;
  const ToolSyntax* syntax_;
  std::shared_ptr<const ParameterTypes> types_;
  State state_ = State::kText;
  std::vector<CallPart> parts_;
  std::string* shown_ = nullptr;  // during Push
  size_t at_ = 0;                 // current byte's offset in the displayed text
  size_t told_ = 0;               // text before it was emitted; later text is held back
  size_t matched_ = 0;            // matched bytes of the marker or other markup; digits of a number in it
  std::string_view expected_;     // remaining markup elsewhere
  std::string name_;              // of the current call
  // offsets in the displayed text; part_begin_: after the last '.' of the name
  size_t name_begin_ = 0, name_end_ = 0, part_begin_ = 0;
  bool in_call_ = false;
  bool in_string_ = false, escaped_ = false;   // inside JSON arguments
  size_t depth_ = 0;                           // bracket depth
  std::unique_ptr<ArgumentReader> arguments_;  // for arguments that are not JSON
  int64_t calls_at_ = -1;
};

struct ToolCall {
  std::string name, arguments;
  bool complete = true;  // false: cut
  std::string id;        // id given by the model; "" if its syntax has none
};

/// Parses the calls of a text that starts with them, in any syntax, such as text.substr(calls_at).
std::vector<ToolCall> ReadToolCalls(std::string_view text);

/// Appends a call in Hermes syntax to an answer's text, which may be empty; `calls_at` as in ToolCallReader, -1 before
/// the first. `name` is a tool's; `arguments` is an object or a prefix of one, after which nothing may be appended.
void AppendToolCall(std::string_view name, std::string_view arguments, std::string* text, int64_t* calls_at);

/// Normalizes the calls from `calls_at` on to one syntax without white space outside strings, so that equal calls
/// compare equal. -1: returns the text unchanged.
std::string ComparableText(std::string_view text, int64_t calls_at);

/// Offset in a continued answer at which its calls start, or text that may become the first one; the text's size if
/// there is none. `calls_at` as in ToolCallReader.
size_t FirstCall(std::string_view text, int64_t calls_at, CallPlace place, ToolSyntaxName syntax);

/// Public id of an answer's call: `prefix` ("call_", "fc_", "toolu_"), the part of `item` after "msg_", the number.
std::string ToolCallId(std::string_view prefix, std::string_view item, size_t call);

/// The model's id for a call with this public id, if its syntax has ids: the last nine letters and digits.
std::string ModelCallId(std::string_view public_id);

}  // namespace ringside
