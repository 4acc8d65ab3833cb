#include "ws/openai/responses_events.h"

#include <algorithm>

#include "ws/json/json_writer.h"
#include "ws/openai/responses_objects.h"

namespace ringside {
namespace {

/// Number of the first event of the end, which is the first behind everything else.
uint64_t FirstOfEnd(const Response& response) {
  EventCounts counts = response.events();
  counts.ended = counts.ended_bare = 0;
  return kResponsesNumbers.Of(counts);
}

std::string PlaceOf(const Response& response) {
  return "\"item_id\":\"" + response.item_id + "\",\"output_index\":0,\"content_index\":0,";
}

}  // namespace

EventWriter::EventWriter(const Tokenizer& tokenizer, const std::string& model, std::string stream_id, Framing framing)
    : tokenizer_(tokenizer), model_(model), stream_id_(std::move(stream_id)), framing_(framing) {}

// Every event ends with: ,"sequence_number":4,"stream_id":"a","ringside":{"seq":9}}
std::string EventWriter::Event(const Response& response, std::string_view type, uint64_t number,
                               std::string_view members) const {
  std::string out;
  out.reserve(members.size() + 256);
  if (framing_ == Framing::kServerSentEvents) out.append("event: ").append(type).append("\ndata: ");
  out.append("{\"type\":\"").append(type).append("\",").append(members);
  out += ",\"sequence_number\":" + std::to_string(number);
  if (!stream_id_.empty()) out += ",\"stream_id\":\"" + stream_id_ + '"';  // its alphabet needs no escapes
  if (!response.conversation_id.empty()) {
    out += ",\"ringside\":{\"seq\":" + std::to_string(kResponsesNumbers.Of(response.before) + number) + '}';
  }
  out += '}';
  if (framing_ == Framing::kServerSentEvents) out += "\n\n";
  return out;
}

std::string EventWriter::Numbered(const Response& response, uint64_t number) const {
  const uint64_t begun = response.warm_up ? kResponsesNumbers.warm_up : kResponsesNumbers.answer;
  if (number < begun) {
    // A replay may come after the end: these events show the response as it was then.
    return Event(response, number == 0 ? "response.created" : "response.in_progress", number,
                 "\"response\":" + ResponseWith(response, ResponseStatus::kInProgress, model_, ""));
  }
  const uint64_t first_delta = begun + kResponsesNumbers.opened;
  const uint64_t end = FirstOfEnd(response);
  if (!response.running() && number >= end) return Ended(response, number, end);
  if (number < first_delta) return Opened(response, number);
  const auto piece = static_cast<size_t>(number - first_delta);
  return Delta(response, number, response.piece(piece), response.piece_tokens(piece));
}

std::string EventWriter::Delta(const Response& response, uint64_t number, std::string_view text,
                               std::span<const OutputToken> tokens) const {
  std::string members = PlaceOf(response) + "\"delta\":\"";
  AppendJsonEscaped(members, text);
  members += "\",\"logprobs\":" + Logprobs(tokens, tokenizer_);
  return Event(response, "response.output_text.delta", number, members);
}

std::string EventWriter::Opened(const Response& response, uint64_t number) const {
  if (number > kResponsesNumbers.answer) {
    return Event(response, "response.content_part.added", number,
                 PlaceOf(response) + "\"part\":" + TextPart("", "[]"));
  }
  JsonWriter item;
  item.BeginObject().Field("id", response.item_id).Field("type", "message").Field("status", "in_progress");
  item.Field("role", "assistant").Key("content").BeginArray().EndArray().EndObject();
  return Event(response, "response.output_item.added", number, "\"output_index\":0,\"item\":" + item.text());
}

std::string EventWriter::Ended(const Response& response, uint64_t number, uint64_t first) const {
  std::string output;
  if (response.opened) {
    const std::string logprobs = Logprobs(response.tokens, tokenizer_);
    if (number == first) {
      return Event(response, "response.output_text.done", number,
                   PlaceOf(response) + "\"text\":\"" + JsonEscaped(response.text) + "\",\"logprobs\":" + logprobs);
    }
    const std::string part = TextPart(response.text, logprobs);
    if (number == first + 1) {
      return Event(response, "response.content_part.done", number, PlaceOf(response) + "\"part\":" + part);
    }
    output = OutputItem(response, part);
    if (number == first + 2) {
      return Event(response, "response.output_item.done", number, "\"output_index\":0,\"item\":" + output);
    }
  }
  const char* type = response.status == ResponseStatus::kCompleted ? "response.completed"
                     : response.status == ResponseStatus::kFailed  ? "response.failed"
                                                                   : "response.incomplete";
  return Event(response, type, number, "\"response\":" + ResponseWith(response, response.status, model_, output));
}

std::string EventWriter::Evicted(const Response& response) const {
  const int64_t tokens = response.report.tokens_evicted - response.tokens_evicted_before;
  if (response.conversation_id.empty() || tokens <= 0) return "";
  JsonWriter json;
  json.BeginObject().Field("type", "ringside:session.evicted").Field("session", response.conversation_id);
  json.Field("messages", std::max<int64_t>(0, response.report.messages_evicted - response.messages_evicted_before));
  json.Field("tokens", tokens);
  if (!stream_id_.empty()) json.Field("stream_id", stream_id_);
  return json.EndObject().Take();
}

std::string EventWriter::Snapshot(const Response& response) const {
  JsonWriter json;
  json.BeginObject().Field("type", "ringside:session.snapshot").Field("response_id", response.id);
  json.Field("item_id", response.item_id).Field("text", response.text);
  json.Field("next_seq", kResponsesNumbers.Of(response.before + response.events()));
  if (!stream_id_.empty()) json.Field("stream_id", stream_id_);
  return json.EndObject().Take();
}

std::string EventWriter::Queued(const Response& response, int64_t position) const {
  JsonWriter json;
  json.BeginObject().Field("type", "ringside:response.queued").Field("response_id", response.id);
  json.Field("position", position);
  if (!stream_id_.empty()) json.Field("stream_id", stream_id_);
  return json.EndObject().Take();
}

}  // namespace ringside
