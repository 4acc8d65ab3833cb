// What the answers of /v1/chat/completions and /v1/completions have in common: a frame around choices, server-sent
// events, usage. Const; any thread.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "engine/text/tokenizer.h"
#include "ws/chat/answer_writer.h"
#include "ws/json/json_writer.h"

namespace ringside {

class CompletionFormat : public AnswerWriter {
 public:
  struct Frame {
    std::string id, model;
    std::string object, chunk_object;  // of a whole answer and of a streamed piece
    int64_t created = 0;               // seconds since 1970
    int64_t choices = 1;               // of each prompt
    bool include_usage = false;
    bool continuous_usage = false;          // in chunks, too; with include_usage, and where pieces have their tokens
    bool token_ids = false;                 // asked for
    std::vector<std::string> ignored = {};  // fields of the request without effect
  };

  std::string Finish(const EndedChoices& choices) const final;
  std::string Failure(const Status& status) const final;
  std::string Whole(const EndedChoices& choices) const final;
  HttpResponse Refusal(const Status& status, int64_t retry_after_ms) const final;

 protected:
  CompletionFormat(const Tokenizer& tokenizer, Frame frame) : tokenizer_(tokenizer), frame_(std::move(frame)) {}

  /// The members of a choice in a whole answer, behind its index and in front of its finish_reason.
  virtual void WriteWhole(JsonWriter& json, size_t choice, const Response& response) const = 0;
  /// The members of a whole answer that belong to no choice.
  virtual void WriteWholeAnswer(JsonWriter&, const EndedChoices&) const {}
  /// A streamed event around one choice's members, JSON that follows its index; `of_answer`: members beside the choice.
  /// `so_far`: what the choice has cost.
  std::string Chunk(size_t choice, std::string_view members, std::string_view of_answer = {},
                    const std::optional<AnswerUsage>& so_far = std::nullopt) const;
  /// The choice's last one, which reports the request's ignored fields.
  std::string LastChunk(size_t choice, std::string_view members, const Response& response) const;
  static AnswerUsage UsageSoFar(const ChoicePiece& piece) {
    return {.input = piece.input_tokens, .output = static_cast<int64_t>(piece.tokens_before + piece.tokens.size())};
  }
  /// "finish_reason", and "ringside" where that has no value for the reason.
  static void WriteFinish(JsonWriter& json, const Response& response);
  /// "prompt_token_ids" and "token_ids", if they were asked for.
  void WritePromptIds(JsonWriter& json, const Response& response) const;
  void WriteIds(JsonWriter& json, std::span<const TokenId> ids) const;
  void WriteIds(JsonWriter& json, std::span<const OutputToken> tokens) const;

  const Tokenizer& tokenizer_;

 private:
  void OpenFrame(JsonWriter& json, const std::string& object) const;
  void WriteUsage(JsonWriter& json, const EndedChoices& choices) const;

  const Frame frame_;
};

}  // namespace ringside
