// Serializes one request's answers in its protocol's format. Created for the request, then const.
// THREAD: any.
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
  size_t choice = 0, index = 0;  // the choice, and the text's index among its answer's items
  std::string_view text;
  std::span<const OutputToken> tokens;  // of the text, if logprobs or ids were requested
  size_t offset = 0;                    // characters of the choice's text before this piece
  int64_t input_tokens = 0;             // of the choice's prompt
  size_t tokens_before = 0;             // of the choice, if `tokens` are given
};

/// The finished answers, by choice.
using EndedChoices = std::vector<std::shared_ptr<const Response>>;

class AnswerWriter {
 public:
  virtual ~AnswerWriter() = default;

  // Streaming: each function returns the text to send, "" for none. Begin of choice 0 comes first; within a choice the
  // calls come in this order. An answer without text gets no OpenText, Piece or EndText. `has_text`: text follows
  // without OpenText.
  virtual std::string Begin(size_t choice, const Response& response, bool has_text) const = 0;
  /// Start (kReasoningOpened) or end (kReasoningEnded) of the reasoning; between them its pieces, if streams_reasoning.
  virtual std::string Reasoning(size_t, const TurnEvent&) const { return ""; }
  virtual std::string ReasoningPiece(const ChoicePiece&) const { return ""; }
  virtual bool streams_reasoning() const { return false; }
  /// The text follows another item and has index `index`.
  virtual std::string OpenText(size_t choice, size_t index) const {
    (void)choice;
    (void)index;
    return "";
  }
  virtual std::string Piece(const ChoicePiece& piece) const = 0;
  /// The text with index `index` has ended, and a tool call follows.
  virtual std::string EndText(size_t choice, size_t index) const {
    (void)choice;
    (void)index;
    return "";
  }
  /// Start of a tool call (kCall), a piece of its arguments (kCallText; only if streams_arguments), or its end.
  virtual std::string Call(size_t, const TurnEvent&) const { return ""; }
  virtual bool streams_arguments(const TurnEvent&) const { return true; }
  /// Ids that belong to no piece: of tool calls and markup. Only if ids were requested; never empty.
  virtual std::string Rest(size_t, std::span<const TokenId>) const { return ""; }
  virtual std::string End(size_t choice, const Response& response) const = 0;
  /// After all choices.
  virtual std::string Finish(const EndedChoices& choices) const = 0;
  /// Replaces the rest of the stream.
  virtual std::string Failure(const Status& status) const = 0;
  virtual const char* stream_type() const { return "text/event-stream"; }

  // The complete, unstreamed response.
  virtual std::string Whole(const EndedChoices& choices) const = 0;
  /// An error before anything was sent.
  virtual HttpResponse Refusal(const Status& status, int64_t retry_after_ms) const = 0;
};

/// Usage of a request: a prompt counts once, whatever the number of choices.
struct AnswerUsage {
  int64_t input = 0, cached = 0, output = 0;
  int64_t reasoning = 0;  // part of the output
};
AnswerUsage UsageOf(const Response& response);
/// `per_prompt` consecutive choices answer each prompt.
AnswerUsage UsageOf(const EndedChoices& choices, int64_t per_prompt);

/// True if an answer ended at a length limit.
bool IsCut(const Response& response);
/// True if a finished answer has a text, possibly empty; false if it has only tool calls or reasoning.
bool HasText(const Response& response);
/// True if it ended because its conversation reached its token limit.
bool IsFull(const Response& response);
/// kRepetition for an answer that ended for this reason, otherwise "".
std::string_view RepetitionReason(const Response& response);

/// Number of code points.
size_t CountCharacters(std::string_view text);

}  // namespace ringside
