#include "ws/openai/responses_events.h"

#include <algorithm>
#include <atomic>

#include "ws/json/json_writer.h"
#include "ws/transport/http.h"

namespace ringside {
namespace {

const char* StatusName(ResponseStatus status) {
  switch (status) {
    case ResponseStatus::kInProgress:
      return "in_progress";
    case ResponseStatus::kCompleted:
      return "completed";
    case ResponseStatus::kIncomplete:
      return "incomplete";
    case ResponseStatus::kCancelled:
      return "cancelled";
    case ResponseStatus::kFailed:
      return "failed";
  }
  return "failed";
}

// The answer's item may be cut short where the response is cancelled or failed.
const char* ItemStatus(const Response& response) {
  if (response.running()) return "in_progress";
  return response.status == ResponseStatus::kCompleted ? "completed" : "incomplete";
}

void WriteLogprob(JsonWriter& json, const Tokenizer& tokenizer, TokenId id, float logprob) {
  const std::string_view bytes = tokenizer.TokenBytes(id);
  json.Field("token", bytes.empty() ? tokenizer.TokenName(id) : bytes);
  json.Field("logprob", static_cast<double>(logprob));
  json.Key("bytes").BeginArray();
  for (const char c : bytes) json.Value(static_cast<int>(static_cast<unsigned char>(c)));
  json.EndArray();
}

std::string Logprobs(std::span<const OutputToken> tokens, const Tokenizer& tokenizer) {
  JsonWriter json;
  json.BeginArray();
  for (const OutputToken& token : tokens) {
    json.BeginObject();
    WriteLogprob(json, tokenizer, token.id, token.logprob);
    json.Key("top_logprobs").BeginArray();
    for (const TokenLogprob& top : token.top) {
      json.BeginObject();
      WriteLogprob(json, tokenizer, top.id, top.logprob);
      json.EndObject();
    }
    json.EndArray().EndObject();
  }
  return json.EndArray().Take();
}

std::string TextPart(std::string_view text, const std::string& logprobs) {
  JsonWriter json;
  json.BeginObject().Field("type", "output_text").Field("text", text);
  json.Key("annotations").BeginArray().EndArray();
  json.Key("logprobs").Raw(logprobs).EndObject();
  return json.Take();
}

std::string OutputItem(const Response& response, const std::string& part) {
  JsonWriter json;
  json.BeginObject().Field("id", response.item_id).Field("type", "message").Field("status", ItemStatus(response));
  json.Field("role", "assistant").Key("content").BeginArray();
  if (!part.empty()) json.Raw(part);
  return json.EndArray().EndObject().Take();
}

void WriteUsage(JsonWriter& json, const Response& response) {
  json.BeginObject().Field("input_tokens", response.input_tokens);
  json.Key("input_tokens_details").BeginObject();
  json.Field("cached_tokens", response.report.tokens_reused);
  json.Field("cache_write_tokens", response.report.tokens_computed).EndObject();
  json.Field("output_tokens", response.output_tokens);
  json.Key("output_tokens_details").BeginObject().Field("reasoning_tokens", 0).EndObject();
  json.Field("total_tokens", response.input_tokens + response.output_tokens).EndObject();
}

void WriteReport(JsonWriter& json, const Response& response) {
  const CacheReport& report = response.report;
  json.BeginObject().Field("source", CacheSourceName(report.source)).Field("tokens_reused", report.tokens_reused);
  json.Field("tokens_computed", report.tokens_computed).Field("tokens_evicted", report.tokens_evicted);
  json.Field("messages_evicted", report.messages_evicted).Field("restore_ms", report.restore_ms);
  json.Field("position", report.position);
  json.Field("ttft_ms", response.times.queue_ms + response.times.prefill_ms);
  // The first token belongs to the prefill.
  const double seconds = response.times.decode_ms / 1000;
  const auto tokens = static_cast<double>(response.output_tokens - 1);
  json.Key("tokens_per_s");
  seconds > 0 && tokens > 0 ? json.Value(tokens / seconds) : json.Null();
  WriteRecorded(json, response.recorded);
  json.EndObject();
}

void WriteFailure(JsonWriter& json, const Response& response) {
  json.Key("error");
  if (response.status != ResponseStatus::kFailed) {
    json.Null();
    return;
  }
  const StatusCode code = response.error.code();
  const char* name = code == StatusCode::kOverloaded        ? "rate_limit_exceeded"
                     : code == StatusCode::kInvalidArgument ? "invalid_prompt"
                                                            : "server_error";
  json.BeginObject().Field("code", name).Field("message", MapStatus(response.error).message).EndObject();
}

std::string ResponseWith(const Response& response, const std::string& model, const std::string& output) {
  JsonWriter json;
  json.BeginObject().Field("id", response.id).Field("object", "response").Field("created_at", response.created_at);
  json.Field("status", StatusName(response.status)).Key("completed_at");
  response.completed_at > 0 && response.status == ResponseStatus::kCompleted ? json.Value(response.completed_at)
                                                                             : json.Null();
  WriteFailure(json, response);
  json.Key("incomplete_details");
  if (response.status == ResponseStatus::kIncomplete) {
    const std::string& reason = response.incomplete_reason;
    json.BeginObject().Field("reason", reason.empty() ? "max_output_tokens" : reason).EndObject();
  } else {
    json.Null();
  }
  json.Field("model", model).TextOrNull("previous_response_id", response.previous_id).Key("conversation");
  if (response.conversation_id.empty()) {
    json.Null();
  } else {
    json.BeginObject().Field("id", response.conversation_id).EndObject();
  }
  if (!response.echo.empty()) json.Raw(response.echo);
  json.Key("output").BeginArray();
  if (!output.empty()) json.Raw(output);
  json.EndArray().Key("usage");
  if (response.running()) {
    json.Null();
  } else {
    WriteUsage(json, response);
    json.Key("ringside");
    WriteReport(json, response);
  }
  return json.EndObject().Take();
}

}  // namespace

void WriteRecorded(JsonWriter& json, const JournalPosition& recorded) {
  if (recorded.seq == 0) return;
  json.Field("seq", recorded.seq).Field("chain", recorded.chain.Hex());
}

std::string ResponseObject(const Response& response, const Tokenizer& tokenizer, const std::string& model) {
  if (!response.opened) return ResponseWith(response, model, "");
  const std::string part = TextPart(response.text, Logprobs(response.tokens, tokenizer));
  return ResponseWith(response, model, OutputItem(response, part));
}

std::string ItemObject(const Item& item) {
  const bool answer = item.role == ChatRole::kAssistant;
  JsonWriter json;
  json.BeginObject().Field("id", item.id).Field("type", "message");
  json.Field("status", item.complete ? "completed" : "incomplete").Field("role", ChatRoleName(item.role));
  json.Key("content").BeginArray().BeginObject();
  json.Field("type", answer ? "output_text" : "input_text").Field("text", item.text);
  if (answer) {
    json.Key("annotations").BeginArray().EndArray();
    json.Key("logprobs").BeginArray().EndArray();
  }
  return json.EndObject().EndArray().EndObject().Take();
}

std::string ItemList(const std::vector<Item>& items, bool has_more) {
  JsonWriter json;
  json.BeginObject().Field("object", "list").Key("data").BeginArray();
  for (const Item& item : items) json.Raw(ItemObject(item));
  json.EndArray().Field("first_id", items.empty() ? "" : items.front().id);
  json.Field("last_id", items.empty() ? "" : items.back().id);
  return json.Field("has_more", has_more).EndObject().Take();
}

std::string ErrorObject(const Status& status, int64_t retry_after_ms) {
  const WireError wire = MapStatus(status, retry_after_ms);
  JsonWriter json;
  json.BeginObject().Field("type", wire.type).TextOrNull("code", wire.code).Field("message", wire.message);
  json.TextOrNull("param", wire.param);
  if (wire.retry_after_ms > 0) json.Field("retry_after_ms", wire.retry_after_ms);
  return json.EndObject().Take();
}

std::string ErrorFrame(const Status& status, const std::string& stream_id, int64_t retry_after_ms) {
  JsonWriter json;
  json.BeginObject().Field("type", "error").Field("status", MapStatus(status).http_status);
  if (!stream_id.empty()) json.Field("stream_id", stream_id);
  return json.Key("error").Raw(ErrorObject(status, retry_after_ms)).EndObject().Take();
}

EventWriter::EventWriter(const Tokenizer& tokenizer, const std::string& model, std::string stream_id, Push push)
    : tokenizer_(tokenizer), model_(model), stream_id_(std::move(stream_id)), push_(std::move(push)), merge_key_([] {
        static std::atomic<uint64_t> next{0};
        return ++next;
      }()) {}

// What every event ends with: ,"sequence_number":4,"stream_id":"a","ringside":{"seq":9}}
std::string EventWriter::Trailer(const Response& response, int64_t sequence) const {
  std::string out = ",\"sequence_number\":" + std::to_string(sequence);
  if (!stream_id_.empty()) out += ",\"stream_id\":\"" + stream_id_ + '"';  // its alphabet needs no escapes
  if (!response.conversation_id.empty()) {
    out += ",\"ringside\":{\"seq\":" + std::to_string(response.first_seq + static_cast<uint64_t>(sequence)) + '}';
  }
  return out + '}';
}

void EventWriter::Emit(const Response& response, const char* type, int64_t sequence, const std::string& members) {
  push_({"{\"type\":\"" + std::string(type) + "\"," + members + Trailer(response, sequence), "", "", 0});
}

void EventWriter::WriteDelta(const TurnEvent& event) {
  const Response& response = event.response;
  Frame frame;
  frame.head = R"({"type":"response.output_text.delta","item_id":")" + response.item_id +
               R"(","output_index":0,"content_index":0,"delta":")";
  AppendJsonEscaped(frame.delta, event.text);
  frame.tail = R"(","logprobs":)" + Logprobs(event.tokens, tokenizer_) + Trailer(response, event.sequence);
  frame.merge_key = event.tokens.empty() ? merge_key_ : 0;
  push_(std::move(frame));
}

void EventWriter::WriteOpened(const TurnEvent& event) {
  const Response& response = event.response;
  if (event.sequence >= event.from) {
    JsonWriter item;
    item.BeginObject().Field("id", response.item_id).Field("type", "message").Field("status", "in_progress");
    item.Field("role", "assistant").Key("content").BeginArray().EndArray().EndObject();
    Emit(response, "response.output_item.added", event.sequence, "\"output_index\":0,\"item\":" + item.text());
  }
  Emit(
      response, "response.content_part.added", event.sequence + 1,
      "\"item_id\":\"" + response.item_id + "\",\"output_index\":0,\"content_index\":0,\"part\":" + TextPart("", "[]"));
}

// Tells of messages that have left the window during this turn.
void EventWriter::WriteEvicted(const Response& response) {
  const int64_t tokens = response.report.tokens_evicted - response.tokens_evicted_before;
  if (response.conversation_id.empty() || tokens <= 0) return;
  JsonWriter json;
  json.BeginObject().Field("type", "ringside:session.evicted").Field("session", response.conversation_id);
  json.Field("messages", std::max<int64_t>(0, response.report.messages_evicted - response.messages_evicted_before));
  json.Field("tokens", tokens);
  if (!stream_id_.empty()) json.Field("stream_id", stream_id_);
  push_({json.EndObject().Take(), "", "", 0});
}

void EventWriter::WriteEnd(const TurnEvent& event) {
  const Response& response = event.response;
  int64_t sequence = event.sequence;
  std::string output;
  if (response.opened) {
    const std::string place = "\"item_id\":\"" + response.item_id + "\",\"output_index\":0,\"content_index\":0,";
    const std::string logprobs = Logprobs(response.tokens, tokenizer_);
    const std::string part = TextPart(response.text, logprobs);
    output = OutputItem(response, part);
    if (sequence >= event.from) {
      Emit(response, "response.output_text.done", sequence,
           place + "\"text\":\"" + JsonEscaped(response.text) + "\",\"logprobs\":" + logprobs);
    }
    if (++sequence >= event.from) Emit(response, "response.content_part.done", sequence, place + "\"part\":" + part);
    if (++sequence >= event.from) {
      Emit(response, "response.output_item.done", sequence, "\"output_index\":0,\"item\":" + output);
    }
    ++sequence;
  }
  WriteEvicted(response);
  const char* type = response.status == ResponseStatus::kCompleted ? "response.completed"
                     : response.status == ResponseStatus::kFailed  ? "response.failed"
                                                                   : "response.incomplete";
  Emit(response, type, sequence, "\"response\":" + ResponseWith(response, model_, output));
}

void EventWriter::WriteSnapshot(const TurnEvent& event) {
  const Response& response = event.response;
  JsonWriter json;
  json.BeginObject().Field("type", "ringside:session.snapshot").Field("response_id", response.id);
  json.Field("item_id", response.item_id).Field("text", event.text);
  json.Field("next_seq", response.first_seq + static_cast<uint64_t>(event.sequence));
  if (!stream_id_.empty()) json.Field("stream_id", stream_id_);
  push_({json.EndObject().Take(), "", "", 0});
}

void EventWriter::WriteQueued(const Response& response, int64_t position) {
  JsonWriter json;
  json.BeginObject().Field("type", "ringside:response.queued").Field("response_id", response.id);
  json.Field("position", position);
  if (!stream_id_.empty()) json.Field("stream_id", stream_id_);
  push_({json.EndObject().Take(), "", "", 0});
}

void EventWriter::Write(const TurnEvent& event) {
  switch (event.kind) {
    case TurnEvent::Kind::kCreated:
    case TurnEvent::Kind::kInProgress: {
      // A replay may come after the end: these events show the response as it was then.
      Response then;
      if (!event.response.running()) {
        then = event.response;
        then.status = ResponseStatus::kInProgress;
      }
      const Response& shown = event.response.running() ? event.response : then;
      Emit(event.response, event.kind == TurnEvent::Kind::kCreated ? "response.created" : "response.in_progress",
           event.sequence, "\"response\":" + ResponseWith(shown, model_, ""));
      return;
    }
    case TurnEvent::Kind::kOpened:
      WriteOpened(event);
      return;
    case TurnEvent::Kind::kDelta:
      WriteDelta(event);
      return;
    case TurnEvent::Kind::kEnd:
      WriteEnd(event);
      return;
    case TurnEvent::Kind::kSnapshot:
      WriteSnapshot(event);
      return;
  }
}

void WriteEvent(Outbox& outbox, EventWriter& writer, const TurnEvent& event) {
  if (event.kind != TurnEvent::Kind::kEnd) return writer.Write(event);
  outbox.PushTogether([&] { writer.Write(event); });
}

}  // namespace ringside
