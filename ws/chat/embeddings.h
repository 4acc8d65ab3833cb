// Embeds texts as unit vectors: the mean of the final norm's output over a text's tokens. POST /v1/embeddings, and
// shared parts of other protocols.
// THREAD: handlers run on workers.
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

inline constexpr int64_t kMaxEmbeddedTexts = 2048;                 // per request
inline constexpr int64_t kMaxEmbeddingNumbers = int64_t{4} << 20;  // in all vectors of a response

/// An embedding request of any protocol.
struct EmbeddingRequest {
  IgnoredFields ignored;
  TurnSpec turn;
  std::vector<RawPrompt> texts;
  std::string texts_param = "input";
  int64_t dimensions = 0;  // 0 = all
};

/// Complete responses, one choice per text.
class EmbeddingWriter : public AnswerWriter {
 public:
  std::string Begin(size_t, const Response&, bool) const final { return ""; }
  std::string Piece(const ChoicePiece&) const final { return ""; }
  std::string End(size_t, const Response&) const final { return ""; }
  std::string Finish(const EndedChoices&) const final { return ""; }
  std::string Failure(const Status&) const final { return ""; }
};

/// Starts to answer. The writer refuses: no text, too many texts, other dimensions than the model's, or a model without
/// embeddings.
/// THREAD: a worker.
HttpResponse AnswerEmbeddings(const ChatService& service, const SessionTableOptions& options, const HttpRequest& asked,
                              EmbeddingRequest request, std::shared_ptr<const EmbeddingWriter> writer);
/// The response's vector, normalized to length 1.
std::vector<float> UnitVector(const Response& response);
void WriteVector(JsonWriter& json, const std::vector<float>& vector);

HttpResponse CreateEmbeddings(const ChatService& service, const HttpRequest& request);
RequestKind EmbeddingKind();

}  // namespace ringside
