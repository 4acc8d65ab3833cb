// Texts as unit vectors: the mean of what the model's final norm makes of a text's tokens. POST /v1/embeddings, and
// what other faces need for theirs. Handlers run on workers.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/status.h"
#include "ws/chat/stateless_answers.h"
#include "ws/fields/field_info.h"
#include "ws/fields/ignored_fields.h"
#include "ws/json/json_writer.h"
#include "ws/transport/http/http.h"

namespace ringside {

inline constexpr int64_t kMaxEmbeddedTexts = 2048;                 // of one request
inline constexpr int64_t kMaxEmbeddingNumbers = int64_t{4} << 20;  // of all of one answer's vectors

/// What is asked for, whatever the face.
struct EmbeddingRequest {
  IgnoredFields ignored;
  TurnSpec turn;
  std::vector<RawPrompt> texts;
  std::string texts_param = "input";
  int64_t dimensions = 0;  // 0 = as many as there are
};

/// The answers are whole, one choice a text.
class EmbeddingWriter : public AnswerWriter {
 public:
  std::string Begin(size_t, const Response&, bool) const final { return ""; }
  std::string Piece(const ChoicePiece&) const final { return ""; }
  std::string End(size_t, const Response&) const final { return ""; }
  std::string Finish(const EndedChoices&) const final { return ""; }
  std::string Failure(const Status&) const final { return ""; }
};

/// Begins to answer. The writer's refusal: no text, more than there may be, other dimensions than there are, or a model
/// that embeds nothing. On a worker.
HttpResponse AnswerEmbeddings(const ChatService& service, const HttpRequest& asked, EmbeddingRequest request,
                              std::shared_ptr<const EmbeddingWriter> writer);
/// The response's vector, of length 1.
std::vector<float> UnitVector(const Response& response);
void WriteVector(JsonWriter& json, const std::vector<float>& vector);

HttpResponse CreateEmbeddings(const ChatService& service, const HttpRequest& request);
RequestKind EmbeddingKind();

}  // namespace ringside
