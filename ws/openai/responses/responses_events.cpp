#include "ws/openai/responses/responses_events.h"

#include <algorithm>

#include "ws/json/json_writer.h"
#include "ws/openai/responses/responses_objects.h"
#include "ws/openai/tool_names.h"

namespace ringside {
namespace {

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
  uint64_t next = begun;
  // As it was announced it has no message yet: then what is asked for is the message's beginning.
  if (response.opened || (response.running() && !response.started)) {
    next += kResponsesNumbers.opened;
    if (number < next) return Opened(response, number);
  }
  if (number < next + response.piece_ends.size()) {
    const auto piece = static_cast<size_t>(number - next);
    return Delta(response, number, response.piece(piece), response.piece_tokens(piece));
  }
  next += response.piece_ends.size();
  if (response.opened) {
    if (number < next + kResponsesNumbers.message_ended) return MessageEnded(response, number, number - next);
    next += kResponsesNumbers.message_ended;
  }
  const EventCounts counts = response.events();
  const uint64_t of_calls = kResponsesNumbers.Of(
      {.calls = counts.calls, .call_pieces = counts.call_pieces, .calls_ended = counts.calls_ended});
  return number < next + of_calls ? CallStepOf(response, number, next) : Ended(response, number);
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
    return Event(response, "response.content_part.added", number, PlaceOf(response) + "\"part\":" + TextPart("", "[]"));
  }
  JsonWriter item;
  item.BeginObject().Field("id", response.item_id).Field("type", "message").Field("status", "in_progress");
  item.Field("role", "assistant").Key("content").BeginArray().EndArray().EndObject();
  return Event(response, "response.output_item.added", number, "\"output_index\":0,\"item\":" + item.text());
}

std::string EventWriter::MessageEnded(const Response& response, uint64_t number, uint64_t nth) const {
  const std::string logprobs = Logprobs(response.tokens, tokenizer_);
  if (nth == 0) {
    return Event(response, "response.output_text.done", number,
                 PlaceOf(response) + "\"text\":\"" + JsonEscaped(response.message()) + "\",\"logprobs\":" + logprobs);
  }
  const std::string part = TextPart(response.message(), logprobs);
  if (nth == 1) return Event(response, "response.content_part.done", number, PlaceOf(response) + "\"part\":" + part);
  return Event(response, "response.output_item.done", number,
               "\"output_index\":0,\"item\":" + MessageItem(response, EndedMessageStatus(response), part));
}

std::string EventWriter::CallStepOf(const Response& response, uint64_t number, uint64_t first) const {
  // Steps are one event each, but for the ends of the calls before, which are one more.
  const std::vector<CallStep>& steps = response.call_steps;
  const auto number_of = [&](size_t i) { return first + i + steps[i].call * (kResponsesNumbers.call_ended - 1); };
  size_t low = 0, high = steps.size();
  while (low + 1 < high) {
    const size_t middle = (low + high) / 2;
    (number_of(middle) <= number ? low : high) = middle;
  }
  const CallStep& step = steps[low];
  TurnEvent event{.kind = TurnEvent::Kind::kCall};
  event.response = std::shared_ptr<const Response>(std::shared_ptr<void>(), &response);  // for this call
  event.before.opened = response.opened;
  event.call = step.call;
  size_t begun = low;
  while (steps[begun].kind != CallStep::Kind::kBegun) --begun;
  event.name = response.bytes_of(steps[begun]);
  if (step.kind == CallStep::Kind::kArguments) {
    event.kind = TurnEvent::Kind::kCallText;
    event.text = response.bytes_of(step);
  }
  if (step.ends()) {
    event.kind = TurnEvent::Kind::kCallEnded;
    for (size_t i = begun + 1; i < low; ++i) event.text += response.bytes_of(steps[i]);
  }
  event.whole = step.kind != CallStep::Kind::kCut;
  return Call(event, number, static_cast<size_t>(number - number_of(low)));
}

std::string EventWriter::Call(const TurnEvent& event, uint64_t number, size_t nth) const {
  const Response& response = *event.response;
  const std::string index = "\"output_index\":" + std::to_string(event.output_index()) + ",";
  const auto item = [&](const char* status, std::string_view arguments) {
    return index + "\"item\":" + CallItem(response.item_id, event.call, status, event.name, arguments);
  };
  if (event.kind == TurnEvent::Kind::kCall) {
    return Event(response, "response.output_item.added", number, item("in_progress", ""));
  }
  const bool ended = event.kind == TurnEvent::Kind::kCallEnded;
  if (ended && nth > 0) {
    return Event(response, "response.output_item.done", number,
                 item(event.whole ? "completed" : "incomplete", event.text));
  }
  const ClientTool tool = ClientToolOf(event.name);
  std::string members = index + "\"item_id\":\"" + CallItemId(response.item_id, event.call) + "\",";
  if (tool.custom) {  // a JSON delta may split a character, so the input is sent whole at the end
    members += ended ? "\"input\":\"" : "\"delta\":\"";
    if (ended) AppendJsonEscaped(members, CustomInput(event.text));
    return Event(response, ended ? "response.custom_tool_call_input.done" : "response.custom_tool_call_input.delta",
                 number, members + '"');
  }
  if (ended) members += "\"name\":\"" + std::string(tool.name) + "\",";
  members += ended ? "\"arguments\":\"" : "\"delta\":\"";
  AppendJsonEscaped(members, event.text);
  members += '"';
  return Event(response, ended ? "response.function_call_arguments.done" : "response.function_call_arguments.delta",
               number, members);
}

std::string EventWriter::Ended(const Response& response, uint64_t number) const {
  const char* type = response.status == ResponseStatus::kCompleted ? "response.completed"
                     : response.status == ResponseStatus::kFailed  ? "response.failed"
                                                                   : "response.incomplete";
  return Event(response, type, number,
               "\"response\":" + ResponseWith(response, response.status, model_, OutputItems(response, tokenizer_)));
}

std::string EventWriter::Evicted(const Response& response) const {
  const int64_t tokens = response.report.tokens_evicted - response.tokens_evicted_before;
  const int64_t messages = response.report.messages_evicted - response.messages_evicted_before;
  if (response.conversation_id.empty() || (tokens <= 0 && messages <= 0)) return "";
  JsonWriter json;
  json.BeginObject().Field("type", "ringside:session.evicted").Field("session", response.conversation_id);
  json.Field("messages", std::max<int64_t>(0, messages)).Field("tokens", std::max<int64_t>(0, tokens));
  if (!stream_id_.empty()) json.Field("stream_id", stream_id_);
  return json.EndObject().Take();
}

std::string EventWriter::Snapshot(const Response& response) const {
  JsonWriter json;
  json.BeginObject().Field("type", "ringside:session.snapshot").Field("response_id", response.id);
  json.Field("item_id", response.item_id).Field("text", response.message());
  if (!response.call_steps.empty()) json.Key("output").BeginArray().Raw(OutputItems(response, tokenizer_)).EndArray();
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
