// Tool calls in the text of an answer: read out of it, as a whole or while it comes, and written into one. What they
// look like is the syntax's business (engine/grammar/tools/tool_syntax.h): an answer has its model's, calls that a
// client says were made have Hermes', and a template writes them in its own. What only looks like a call, or is one
// within a string, is text. Pure; a reader belongs to one thread at a time.
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

/// Where in an answer's text calls are looked for.
enum class CallPlace : uint8_t {
  kNone,   // nowhere: it is all text
  kAny,    // behind any text
  kStart,  // at its beginning only: an answer in a format of its own is no call, whatever its strings hold
};

/// A part of the answer: bytes [begin, end) of the shown text (ToolCallReader::Push).
struct CallPart {
  enum class Kind : uint8_t {
    kText,       // a piece of the text before the calls
    kCall,       // a call begins: its name
    kArguments,  // a piece of its arguments, JSON
    kCallEnd,    // its arguments are whole
  };
  Kind kind;
  size_t begin, end;
  friend bool operator==(const CallPart&, const CallPart&) = default;
};

class ToolCallReader {
 public:
  /// `types`: of the parameters of tools; only syntaxes with tags need them.
  explicit ToolCallReader(CallPlace place = CallPlace::kNone, ToolSyntaxName syntax = ToolSyntaxName::kHermes,
                          std::shared_ptr<const ParameterTypes> types = nullptr)
      : place_(place), syntax_(&SyntaxOf(syntax)), types_(std::move(types)) {}

  /// Reads on. Whatever may yet become a call is kept back. Parts come in their order; what stands behind a call and is
  /// none is no part. `shown`, empty before the first piece, becomes the text as it is shown: as it was read, but for
  /// calls whose arguments are not JSON, which it has in Hermes' syntax. It grows, but a call replaces its own markup.
  std::vector<CallPart> Push(std::string_view text, std::string* shown);
  /// The text has ended: what was kept back and is no call. A call that has begun stays open.
  std::vector<CallPart> Finish();

  bool in_call() const { return in_call_; }  // whose arguments are not whole, or are malformed
  /// True if calls are shown in another syntax than the text's.
  bool transcodes() const { return place_ != CallPlace::kNone && !syntax_->has_json(); }
  /// Where the calls begin, with the newline before them; -1 if there are none (so far).
  int64_t calls_at() const { return calls_at_; }

 private:
  enum class State : uint8_t { kText, kOpening, kName, kBehindName, kArguments, kClosing, kBetween, kRest };

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
  size_t at_ = 0;                 // of the byte that is read, in the shown text
  size_t told_ = 0;               // text before it was emitted; later text is kept back
  size_t matched_ = 0;            // bytes of the marker or of other markup; digits of a number in it
  std::string_view expected_;     // elsewhere: what must come
  std::string name_;              // of the call, so far
  size_t name_begin_ = 0, name_end_ = 0, part_begin_ = 0;  // in the shown text; in the name, of what follows its '.'
  bool in_call_ = false;
  bool in_string_ = false, escaped_ = false;   // in JSON arguments
  size_t depth_ = 0;                           // of their brackets
  std::unique_ptr<ArgumentReader> arguments_;  // of others
  int64_t calls_at_ = -1;
};

struct ToolCall {
  std::string name, arguments;
  bool complete = true;  // false: it was cut
  std::string id;        // that the model gave it; "" where its syntax has none
};

/// The calls in a text that begins with them, in any syntax, as text.substr(calls_at) does.
std::vector<ToolCall> ReadToolCalls(std::string_view text);

/// Appends a call to an answer's text, which may be empty, in Hermes' syntax; `calls_at` as ToolCallReader has it, -1
/// before the first. `name` is a tool's, `arguments` an object, or the beginning of one: then nothing may come behind.
void AppendToolCall(std::string_view name, std::string_view arguments, std::string* text, int64_t* calls_at);

/// `text` with the calls from `calls_at` on in one syntax and without blanks outside strings: the same for two who
/// write the same calls. -1: as it is.
std::string ComparableText(std::string_view text, int64_t calls_at);

/// Where in an answer that goes on its calls begin, or what may turn out to be the first one's beginning; the text's
/// size if nowhere. `calls_at` as ToolCallReader has it.
size_t FirstCall(std::string_view text, int64_t calls_at, CallPlace place, ToolSyntaxName syntax);

/// The public ids of an answer's calls: `prefix` ("call_", "fc_", "toolu_"), what `item` has behind "msg_", the number.
std::string ToolCallId(std::string_view prefix, std::string_view item, size_t call);

/// The id by which a model knows a call that has this public one, where its syntax has ids: the last nine letters and
/// digits.
std::string ModelCallId(std::string_view public_id);

}  // namespace ringside
