// How one request's answers are written for its client: each face of this room in its own shapes. Made for the request,
// then const; any thread.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "session/event_sink.h"
#include "session/turn/response.h"
#include "ws/transport/http/http.h"

namespace ringside {

/// A piece of a choice's text or reasoning.
struct ChoicePiece {
  size_t choice = 0, index = 0;  // which one, and the text's place among the items of its answer
  std::string_view text;
  std::span<const OutputToken> tokens;  // of the text, with logprobs or ids asked for
  size_t offset = 0;                    // characters of the choice's text before it
  int64_t input_tokens = 0;             // of the choice's prompt
  size_t tokens_before = 0;             // of the choice, where `tokens` are given
};

/// The answers as they ended, by choice.
using EndedChoices = std::vector<std::shared_ptr<const Response>>;

class AnswerWriter {
 public:
  virtual ~AnswerWriter() = default;

  // Streamed: what is written, "" for nothing. Begin of choice 0 comes first; of a choice all come in this order. An
  // answer without text has neither OpenText, Piece nor EndText. `has_text`: the text follows, without an OpenText.
  virtual std::string Begin(size_t choice, const Response& response, bool has_text) const = 0;
  /// The reasoning's beginning (kReasoningOpened) or end (kReasoningEnded); between them its pieces, if
  /// streams_reasoning.
  virtual std::string Reasoning(size_t, const TurnEvent&) const { return ""; }
  virtual std::string ReasoningPiece(const ChoicePiece&) const { return ""; }
  virtual bool streams_reasoning() const { return false; }
  /// The text follows something else and is the answer's item `index`.
  virtual std::string OpenText(size_t choice, size_t index) const {
    (void)choice;
    (void)index;
    return "";
  }
  virtual std::string Piece(const ChoicePiece& piece) const = 0;
  /// The text, item `index`, has ended, and a tool call follows.
  virtual std::string EndText(size_t choice, size_t index) const {
    (void)choice;
    (void)index;
    return "";
  }
  /// A tool call begins (kCall), a piece of its arguments (kCallText; only if streams_arguments), or it ends.
  virtual std::string Call(size_t, const TurnEvent&) const { return ""; }
  virtual bool streams_arguments(const TurnEvent&) const { return true; }
  /// Ids that no piece has: those of tool calls and of markup. Only with ids asked for, and not empty.
  virtual std::string Rest(size_t, std::span<const TokenId>) const { return ""; }
  virtual std::string End(size_t choice, const Response& response) const = 0;
  /// Behind all choices.
  virtual std::string Finish(const EndedChoices& choices) const = 0;
  /// In place of all that is still to come.
  virtual std::string Failure(const Status& status) const = 0;
  virtual const char* stream_type() const { return "text/event-stream"; }

  // Whole.
  virtual std::string Whole(const EndedChoices& choices) const = 0;
  /// An error before anything was written.
  virtual HttpResponse Refusal(const Status& status, int64_t retry_after_ms) const = 0;
};

/// What a request cost: a prompt counts once, however many choices answer it.
struct AnswerUsage {
  int64_t input = 0, cached = 0, output = 0;
  int64_t reasoning = 0;  // of the output
};
AnswerUsage UsageOf(const Response& response);
/// `per_prompt` choices answer each prompt, one after another.
AnswerUsage UsageOf(const EndedChoices& choices, int64_t per_prompt);

/// True if an answer ended because it was long enough, not by itself.
bool IsCut(const Response& response);
/// True if a whole answer has a text, be it empty: it may be of tool calls or of reasoning alone.
bool HasText(const Response& response);
/// True if it ended because its conversation reached its limit of tokens.
bool IsFull(const Response& response);
/// kRepetition of an answer that ended for it, otherwise "".
std::string_view RepetitionReason(const Response& response);

/// Characters (code points) of UTF-8.
size_t CountCharacters(std::string_view text);

}  // namespace ringside
