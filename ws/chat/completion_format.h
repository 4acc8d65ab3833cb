// Format common to the responses of /v1/chat/completions and /v1/completions: the frame around choices, server-sent
// events, usage. Const.
// THREAD: any.
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
    std::string object, chunk_object;  // of complete responses and of chunks
    int64_t created = 0;               // seconds since 1970
    int64_t choices = 1;               // per prompt
    bool include_usage = false;
    bool continuous_usage = false;          // also in chunks; requires include_usage and tokens with the pieces
    bool token_ids = false;                 // ids were requested
    std::vector<std::string> ignored = {};  // ignored fields of the request
  };

  std::string Finish(const EndedChoices& choices) const final;
  std::string Failure(const Status& status) const final;
  std::string Whole(const EndedChoices& choices) const final;
  HttpResponse Refusal(const Status& status, int64_t retry_after_ms) const final;

 protected:
  CompletionFormat(const Tokenizer& tokenizer, Frame frame);

  /// Members of a choice in a complete response, after its index and before its finish_reason.
  virtual void WriteWhole(JsonWriter& json, size_t choice, const Response& response) const = 0;
  /// Members of a complete response outside the choices.
  virtual void WriteWholeAnswer(JsonWriter&, const EndedChoices&) const {}
  /// A chunk with one choice's members (JSON after its index); `of_answer`: members outside the choice. `so_far`: the
  /// choice's usage.
  std::string Chunk(size_t choice, std::string_view members, std::string_view of_answer = {},
                    const std::optional<AnswerUsage>& so_far = std::nullopt) const;
  /// The choice's last chunk, which reports ignored fields.
  std::string LastChunk(size_t choice, std::string_view members, const Response& response) const;
  static AnswerUsage UsageSoFar(const ChoicePiece& piece) {
    return {.input = piece.input_tokens, .output = static_cast<int64_t>(piece.tokens_before + piece.tokens.size())};
  }
  /// "finish_reason", and "ringside" if the API has no value for the reason.
  static void WriteFinish(JsonWriter& json, const Response& response);
  /// "prompt_token_ids" and "token_ids", if requested.
  void WritePromptIds(JsonWriter& json, const Response& response) const;
  void WriteIds(JsonWriter& json, std::span<const TokenId> ids) const;
  void WriteIds(JsonWriter& json, std::span<const OutputToken> tokens) const;

  const Tokenizer& tokenizer_;

 private:
  std::string ChunkFrame() const;
  void OpenFrame(JsonWriter& json, const std::string& object) const;
  void WriteUsage(JsonWriter& json, const EndedChoices& choices) const;

  const Frame frame_;
  const std::string chunk_frame_;  // a chunk up to the choice's index; declared after `frame_`, from which it is made
};

}  // namespace ringside
