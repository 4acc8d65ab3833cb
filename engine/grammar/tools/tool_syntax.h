// How a family of models is told of tools, writes its calls and is told what they gave: a row of one table for each,
// so that nothing else in the program knows one family from another. A model's chat template says which row is its own
// (session/chat); where it knows no tools it is Hermes', which a stated prompt explains to any model. Plain values.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace ringside {

/// Journals hold these numbers.
enum class ToolSyntaxName : uint8_t {
  kHermes = 0,         // also Qwen 2.5 and 3
  kLlama = 1,          // Llama 3.1, 3.2, 3.3: calls as JSON
  kMistral = 2,        // Mistral's v3 of SentencePiece
  kMistralTekken = 3,  // and of Tekken: the same without blanks
};

struct ToolSyntax {
  ToolSyntaxName name;

  // Calls in an answer: `opening` NAME `before_arguments` {...} `behind_arguments`, every further one with `next` in
  // place of `opening`; then `close`. A '#' is a letter or digit of the id that the model gives the call.
  std::string_view opening;
  size_t marker_bytes;  // of `opening`: what tells a call from text
  bool reserved;        // no text has the marker in it; else none begins with it
  std::string_view before_arguments, behind_arguments, next, close;
  bool alone;    // an answer is text or calls; else the calls may stand behind text, with a newline between
  bool several;  // an answer may have more than one

  // The tools: a text once, before the conversation's first words.
  enum class Place : uint8_t {
    kSystemEnd,   // at the end of the system message
    kUserStart,   // at the beginning of the first user message
    kBeforeUser,  // in front of that message
  };
  Place place;
  std::string_view before_tools, between_tools, behind_tools;
  bool indented;  // each printed over several lines, four blanks a level

  // What a call gave. '#' as above, of the call.
  std::string_view before_result, behind_result;
  bool quoted;  // as a JSON string
  bool joined;  // those that follow one another share a user message, a line each; else each is a message of its own

  std::string_view marker() const { return opening.substr(0, marker_bytes); }
  bool has_ids() const { return behind_arguments.find('#') != std::string_view::npos; }
};

const ToolSyntax& SyntaxOf(ToolSyntaxName name);
std::span<const ToolSyntax> ToolSyntaxes();

/// Which one calls are written in, told by how they begin.
ToolSyntaxName SyntaxOfCalls(std::string_view calls);

/// `pattern` with the id in place of its '#', which are kModelIdBytes or none.
inline constexpr size_t kModelIdBytes = 9;
std::string WithId(std::string_view pattern, std::string_view id);
/// Whether a text's byte is what a pattern has there.
bool FitsPattern(char pattern, char c);

}  // namespace ringside
