#include "ws/openai/responses/responses_events.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "ws/content/response_objects.h"
#include "ws/content/tool_names.h"
#include "ws/json/json_writer.h"

namespace ringside {
namespace {

void AppendNumber(std::string& out, uint64_t number) {
  const fmt::format_int digits(number);
  out.append(digits.data(), digits.size());
}

void AppendPlace(std::string& out, const Response& response, size_t index) {
  out.append("\"item_id\":\"").append(response.item_id).append("\",\"output_index\":");
  AppendNumber(out, index);
  out.append(",\"content_index\":0,");
}

std::string PlaceOf(const Response& response, size_t index) {
  std::string out;
  AppendPlace(out, response, index);
  return out;
}

/// Index of the reasoning, or of the message if there is none, among the output items.
size_t FirstIndex(const Response& response) { return response.compaction.empty() ? 0 : 1; }

/// The message's index in the current answer.
size_t MessageIndex(const Response& response) {
  return FirstIndex(response) + (response.reasoning_ends.empty() ? 0 : 1);
}

/// The response as an event has it. REQUIRES: it outlives the result.
std::shared_ptr<const Response> Borrowed(const Response& response) { return {std::shared_ptr<void>(), &response}; }

/// Event names and fields under which the reasoning is sent.
class ReasoningPlace {
 public:
  explicit ReasoningPlace(const Response& response)
      : summary_(AsksForSummary(response)),
        members_("\"item_id\":\"" + ReasoningItemId(response.item_id) + "\",\"output_index\":" +
                 std::to_string(FirstIndex(response)) + ",\"" + (summary_ ? "summary" : "content") + "_index\":0,") {}

  const std::string& members() const { return members_; }
  const char* added() const {
    return summary_ ? "response.reasoning_summary_part.added" : "response.content_part.added";
  }
  const char* delta() const {
    return summary_ ? "response.reasoning_summary_text.delta" : "response.reasoning_text.delta";
  }
  const char* text_done() const {
    return summary_ ? "response.reasoning_summary_text.done" : "response.reasoning_text.done";
  }
  const char* done() const { return summary_ ? "response.reasoning_summary_part.done" : "response.content_part.done"; }
  std::string Part(std::string_view text) const { return ReasoningPart(text, summary_); }

 private:
  const bool summary_;
  const std::string members_;
};

std::string ItemMembers(const Response& response, const std::string& item) {
  return "\"output_index\":" + std::to_string(FirstIndex(response)) + ",\"item\":" + item;
}

std::string TextMember(std::string_view name, std::string_view text) {
  std::string out = "\"" + std::string(name) + "\":\"";
  AppendJsonEscaped(out, text);
  return out += '"';
}

}  // namespace

EventWriter::EventWriter(std::string stream_id, Framing framing)
    : stream_id_(std::move(stream_id)), framing_(framing) {}

std::string EventWriter::Event(const Response& response, std::string_view type, uint64_t number,
                               std::string_view members) const {
  std::string out = Begin(type, members.size());
  out += members;
  End(out, response, number);
  return out;
}

std::string EventWriter::Begin(std::string_view type, size_t members_size) const {
  std::string out;
  out.reserve(members_size + 256);
  if (framing_ == Framing::kServerSentEvents) out.append("event: ").append(type).append("\ndata: ");
  out.append("{\"type\":\"").append(type).append("\",");
  return out;
}

// Every event ends with: ,"sequence_number":4,"stream_id":"a","ringside":{"seq":9}}
void EventWriter::End(std::string& out, const Response& response, uint64_t number) const {
  out += ",\"sequence_number\":";
  AppendNumber(out, number);
  if (!stream_id_.empty()) out.append(",\"stream_id\":\"").append(stream_id_).append("\"");  // needs no escapes
  if (!response.conversation_id.empty()) {
    out += ",\"ringside\":{\"seq\":";
    AppendNumber(out, kResponsesNumbers.Of(response.before) + number);
    out += '}';
  }
  out += framing_ == Framing::kServerSentEvents ? "}\n\n" : "}";
}

std::string EventWriter::Numbered(const Response& response, uint64_t number) const {
  const uint64_t begun = response.warm_up ? kResponsesNumbers.warm_up : kResponsesNumbers.answer;
  if (number < begun) {
    // A replay may come after the end: these events show the response at its start.
    const ResponseStatus status = response.refused ? ResponseStatus::kFailed : ResponseStatus::kInProgress;
    return Event(response, number == 0 ? "response.created" : "response.in_progress", number,
                 "\"response\":" + ResponseWith(response, status, ""));
  }
  const EventCounts counts = response.events();
  uint64_t next = begun + kResponsesNumbers.Of({.compactions = counts.compactions});
  if (number < next) return Compacted(response, number);
  const uint64_t of_reasoning = kResponsesNumbers.Of({.reasoning_opened = counts.reasoning_opened,
                                                      .reasoning_pieces = counts.reasoning_pieces,
                                                      .reasoning_ended = counts.reasoning_ended});
  if (number < next + of_reasoning) return ReasoningStepOf(response, number, next);
  next += of_reasoning;
  if (response.opened) {
    TurnEvent event{.kind = TurnEvent::Kind::kOpened, .response = Borrowed(response)};
    event.before.reasoning_opened = counts.reasoning_opened;
    if (number < next + kResponsesNumbers.opened) return Opened(event, number, number - next);
    next += kResponsesNumbers.opened;
  }
  if (number < next + response.piece_ends.size()) {
    const auto piece = static_cast<size_t>(number - next);
    return Delta(response, MessageIndex(response), number, response.piece(piece), response.piece_tokens(piece));
  }
  next += response.piece_ends.size();
  if (response.opened) {
    if (number < next + kResponsesNumbers.message_ended) return MessageEnded(response, number, number - next);
    next += kResponsesNumbers.message_ended;
  }
  const uint64_t of_calls = kResponsesNumbers.Of(
      {.calls = counts.calls, .call_pieces = counts.call_pieces, .calls_ended = counts.calls_ended});
  return number < next + of_calls ? CallStepOf(response, number, next) : Ended(response, number);
}

std::string EventWriter::Delta(const Response& response, size_t index, uint64_t number, std::string_view text,
                               std::span<const OutputToken> tokens) const {
  // Written for every token, so into one string.
  std::string out = Begin("response.output_text.delta", response.item_id.size() + text.size());
  AppendPlace(out, response, index);
  out += "\"delta\":\"";
  AppendJsonEscaped(out, text);
  out += "\",\"logprobs\":";
  out += tokens.empty() ? "[]" : Logprobs(tokens, *response.tokenizer);
  End(out, response, number);
  return out;
}

size_t EventWriter::StepsOf(TurnEvent::Kind kind) {
  static const std::map<TurnEvent::Kind, uint64_t> steps = {
      {TurnEvent::Kind::kReasoningOpened, kResponsesNumbers.reasoning_opened},
      {TurnEvent::Kind::kReasoningEnded, kResponsesNumbers.reasoning_ended},
      {TurnEvent::Kind::kOpened, kResponsesNumbers.opened},
      {TurnEvent::Kind::kCallEnded, kResponsesNumbers.call_ended},
  };
  const auto found = steps.find(kind);
  return found != steps.end() ? static_cast<size_t>(found->second) : 1;
}

std::string EventWriter::Step(const TurnEvent& event, uint64_t number, size_t nth) const {
  switch (event.kind) {
    case TurnEvent::Kind::kReasoningOpened:
    case TurnEvent::Kind::kReasoning:
      return Reasoning(event, number, nth);
    case TurnEvent::Kind::kReasoningEnded:
      return ReasoningEnded(event, number, nth);
    case TurnEvent::Kind::kOpened:
      return Opened(event, number, nth);
    default:
      return Call(event, number, nth);
  }
}

// Sent as the summary if one was requested, otherwise as text.
std::string EventWriter::Reasoning(const TurnEvent& event, uint64_t number, size_t nth) const {
  const Response& response = *event.response;
  const ReasoningPlace place(response);
  if (event.kind == TurnEvent::Kind::kReasoning) {
    return Event(response, place.delta(), number, place.members() + TextMember("delta", event.text));
  }
  if (nth > 0) return Event(response, place.added(), number, place.members() + "\"part\":" + place.Part(""));
  return Event(response, "response.output_item.added", number,
               ItemMembers(response, ReasoningItem(response, "", "in_progress")));
}

std::string EventWriter::ReasoningEnded(const TurnEvent& event, uint64_t number, size_t nth) const {
  const Response& response = *event.response;
  const ReasoningPlace place(response);
  if (nth == 0) return Event(response, place.text_done(), number, place.members() + TextMember("text", event.text));
  if (nth == 1) return Event(response, place.done(), number, place.members() + "\"part\":" + place.Part(event.text));
  return Event(response, "response.output_item.done", number,
               ItemMembers(response, ReasoningItem(response, event.text, event.whole ? "completed" : "incomplete")));
}

std::string EventWriter::ReasoningStepOf(const Response& response, uint64_t number, uint64_t first) const {
  TurnEvent event{.kind = TurnEvent::Kind::kReasoningOpened, .response = Borrowed(response)};
  const uint64_t pieces = first + kResponsesNumbers.reasoning_opened, ended = pieces + response.reasoning_ends.size();
  if (number < pieces) return Reasoning(event, number, number - first);
  if (number < ended) {
    event.kind = TurnEvent::Kind::kReasoning;
    event.text = response.reasoning_piece(number - pieces);
    return Reasoning(event, number, 0);
  }
  event.kind = TurnEvent::Kind::kReasoningEnded;
  event.text = response.reasoning;
  event.whole = !response.cut_in_reasoning;
  return ReasoningEnded(event, number, number - ended);
}

std::string EventWriter::Compacted(const Response& response, uint64_t number) const {
  const uint64_t begun = response.warm_up ? kResponsesNumbers.warm_up : kResponsesNumbers.answer;
  return Event(response, number == begun ? "response.output_item.added" : "response.output_item.done", number,
               "\"output_index\":0,\"item\":" + CompactionItem(response.item_id, response.compaction));
}

std::string EventWriter::Opened(const TurnEvent& event, uint64_t number, size_t nth) const {
  const Response& response = *event.response;
  const size_t index = event.output_index();
  if (nth > 0) {
    return Event(response, "response.content_part.added", number,
                 PlaceOf(response, index) + "\"part\":" + TextPart("", "[]"));
  }
  JsonWriter item;
  item.BeginObject().Field("id", response.item_id).Field("type", "message").Field("status", "in_progress");
  item.Field("role", "assistant").Key("content").BeginArray().EndArray().EndObject();
  return Event(response, "response.output_item.added", number,
               "\"output_index\":" + std::to_string(index) + ",\"item\":" + item.text());
}

std::string EventWriter::MessageEnded(const Response& response, uint64_t number, uint64_t nth) const {
  const std::string logprobs = Logprobs(response.tokens, *response.tokenizer);
  const size_t index = MessageIndex(response);
  const std::string place = PlaceOf(response, index);
  if (nth == 0) {
    return Event(response, "response.output_text.done", number,
                 place + TextMember("text", response.message()) + ",\"logprobs\":" + logprobs);
  }
  const std::string part = TextPart(response.message(), logprobs);
  if (nth == 1) return Event(response, "response.content_part.done", number, place + "\"part\":" + part);
  return Event(response, "response.output_item.done", number,
               "\"output_index\":" + std::to_string(index) +
                   ",\"item\":" + MessageItem(response, EndedMessageStatus(response), part));
}

std::string EventWriter::CallStepOf(const Response& response, uint64_t number, uint64_t first) const {
  // Each step is one event, except that the ends of earlier calls are one more.
  const std::vector<CallStep>& steps = response.call_steps;
  const auto number_of = [&](size_t i) { return first + i + steps[i].call * (kResponsesNumbers.call_ended - 1); };
  size_t low = 0, high = steps.size();
  while (low + 1 < high) {
    const size_t middle = (low + high) / 2;
    (number_of(middle) <= number ? low : high) = middle;
  }
  const CallStep& step = steps[low];
  TurnEvent event{.kind = TurnEvent::Kind::kCall};
  event.response = Borrowed(response);
  event.before.opened = response.opened;
  event.before.reasoning_opened = response.reasoning_ends.empty() ? 0 : 1;
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
  if (tool.custom) {  // a JSON delta could split a character, so the input is sent at once at the end
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
               "\"response\":" + ResponseWith(response, response.status, OutputItems(response)));
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
  if (!response.reasoning.empty()) json.Field("reasoning", response.reasoning);
  if (!response.call_steps.empty()) json.Key("output").BeginArray().Raw(OutputItems(response)).EndArray();
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
