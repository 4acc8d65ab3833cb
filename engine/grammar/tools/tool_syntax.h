// How a family of models is given tools, writes its calls and is given their results: one row per family in one table,
// so that no other code depends on the family. A model's chat template determines its row (session/chat); if it does
// not support tools, the row is Hermes', which a system prompt explains to any model. Plain values.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace ringside {

/// Stored in journals: do not renumber.
enum class ToolSyntaxName : uint8_t {
  kHermes = 0,         // also Qwen 2.5 and 3
  kLlama = 1,          // Llama 3.1, 3.2, 3.3: calls as JSON
  kMistral = 2,        // Mistral v3, SentencePiece
  kMistralTekken = 3,  // Mistral v3, Tekken: without blanks
  kMistralCallId = 4,  // version 11: [TOOL_CALLS]f[CALL_ID]...[ARGS]{...}
  kMistralArgs = 5,    // version 13: without the id
  kDeepSeek = 6,       // V3, R1: a JSON code block per call
  kDeepSeekV31 = 7,    // V3.1: bare JSON
  kKimi = 8,           // K2
  kPhi4 = 9,
  kGranite = 10,      // 3.1 to 3.3
  kCommandA = 11,     // Command A, R7B
  kCommandR = 12,     // Command R, R+
  kQwenCoder = 13,    // Qwen3-Coder, Qwen3-Next, Qwen 3.5
  kGlm = 14,          // GLM-4.5 and later
  kMiniMax = 15,      // M2
  kSeed = 16,         // Seed-OSS
  kLlamaPython = 17,  // Llama 3.2 and 4: [f(a=1)]
  kLfm2 = 18,
  kGemma4 = 19,
  kDeepSeekV32 = 20,  // tags
  kDeepSeekV4 = 21,
  kHarmony = 22,  // gpt-oss
};
inline constexpr ToolSyntaxName kLastToolSyntax = ToolSyntaxName::kHarmony;

struct ToolSyntax {
  ToolSyntaxName name;

  // Calls in an answer: `opening` NAME `before_arguments` {...} `after_arguments`, each further one with `next` in
  // place of `opening`; then `close`. A '#' is a letter or digit of the model's call id, a '%' the call's number.
  // Newlines are optional if arguments are kTagged.
  std::string_view opening;
  size_t marker_bytes;  // prefix of `opening` that distinguishes a call from text
  bool reserved;        // the marker never occurs in text; otherwise no text starts with it
  std::string_view before_arguments, after_arguments, next, close;
  bool alone;    // an answer is text or calls; otherwise calls may follow text, after a newline
  bool several;  // an answer may have more than one

  struct Arguments {
    enum class Form : uint8_t {
      kJson,    // an object
      kTagged,  // each `before_key` KEY `before_value` VALUE `after_value`: strings raw, other values as JSON
      kPython,  // keyword arguments in parentheses: (a="x", b=[1, True])
      kGemma,   // an object with bare keys, and strings in <|"|>
    };
    Form form = Form::kJson;
    std::string_view before_key = {}, before_value = {}, after_value = {};
    std::string_view before_json = {};  // replaces `before_value` for values that are not strings; "" = no difference
  };
  Arguments arguments = {};

  // The tools: a text that appears once, at the start of the conversation.
  enum class Place : uint8_t {
    kSystemEnd,   // end of the system message
    kUserStart,   // start of the first user message
    kBeforeUser,  // before the first user message
    kTemplate,    // only the model's template can render tools and results: the fields below are unused
  };
  Place place = Place::kTemplate;
  std::string_view before_tools = {}, between_tools = {}, after_tools = {};
  bool indented = false;  // pretty-printed with an indentation of four

  // The result of a call. '#' is the call's id, as above.
  std::string_view before_result = {}, after_result = {};
  bool quoted = false;  // as a JSON string
  // Consecutive results share a user message, one line each; otherwise each is a separate message.
  bool joined = false;

  std::string_view marker() const { return opening.substr(0, marker_bytes); }
  bool has_json() const { return arguments.form == Arguments::Form::kJson; }
  bool loose() const { return arguments.form == Arguments::Form::kTagged; }  // newlines of markup are optional
  /// Calls have ids of kModelIdBytes letters and digits.
  bool has_ids() const {
    return after_arguments.find('#') != std::string_view::npos || before_arguments.find('#') != std::string_view::npos;
  }
  /// The id of a call is "functions.", its name, ':' and its number in the conversation (Kimi).
  bool has_numbered_ids() const { return before_arguments.find('%') != std::string_view::npos; }
};

const ToolSyntax& SyntaxOf(ToolSyntaxName name);
std::span<const ToolSyntax> ToolSyntaxes();

/// True if a text of calls, possibly truncated, matches the start of the syntax.
bool BeginsAsCalls(const ToolSyntax& syntax, std::string_view calls);
/// The first syntax for which BeginsAsCalls is true; Hermes' if there is none.
ToolSyntaxName SyntaxOfCalls(std::string_view calls);

/// `pattern` with its '#' run, of kModelIdBytes or none, replaced by the id.
inline constexpr size_t kModelIdBytes = 9;
std::string WithId(std::string_view pattern, std::string_view id);
/// True if byte `c` matches the pattern's character; '%' matches one digit of the number.
bool FitsPattern(char pattern, char c);

inline constexpr size_t kMaxNumberDigits = 6;  // of a '%'
inline constexpr size_t kMaxKeyBytes = 128;    // of a bare parameter name
/// A parameter name that needs no quotes: 1 to kMaxKeyBytes letters, digits and "_-.$@/".
bool IsBareKey(std::string_view key);

}  // namespace ringside
