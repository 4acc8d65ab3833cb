#include "clients/wire/server_event.h"

#include <nlohmann/json.hpp>
#include <utility>

#include "base/json/json_tree.h"
#include "clients/wire/json_fields.h"

namespace ringside::client {
namespace {

using Json = nlohmann::json;
using Kind = ServerEvent::Kind;

std::optional<double> Number(const Json& json, const char* name) {
  const Json* value = Find(json, name);
  return value != nullptr && value->is_number() ? std::optional(value->get<double>()) : std::nullopt;
}

std::optional<uint64_t> Unsigned(const Json& json, const char* name) {
  const Json* value = Find(json, name);
  return value != nullptr && value->is_number_integer() ? std::optional(value->get<uint64_t>()) : std::nullopt;
}

void ReadError(const Json& json, ServerEvent& event) {
  const Json* error = Find(json, "error");
  if (error == nullptr) return;
  event.error = {Text(*error, "code"), Text(*error, "message"), Text(*error, "param"), Count(*error, "retry_after_ms")};
}

std::optional<HistoryPosition> ReadHistory(const Json& json) {
  const std::optional<uint64_t> seq = Unsigned(json, "seq");
  std::string chain = Text(json, "chain");
  if (!seq || chain.empty()) return std::nullopt;
  return HistoryPosition{*seq, std::move(chain)};
}

void ReadReport(const Json& response, TurnReport& report) {
  if (const Json* usage = Find(response, "usage")) {
    report.input_tokens = Count(*usage, "input_tokens");
    report.output_tokens = Count(*usage, "output_tokens");
    if (const Json* details = Find(*usage, "output_tokens_details")) {
      report.reasoning_tokens = Count(*details, "reasoning_tokens");
    }
    if (const Json* details = Find(*usage, "input_tokens_details")) {
      report.cached_tokens = Count(*details, "cached_tokens");
    }
  }
  if (const Json* ours = Find(response, "ringside")) {
    report.source = Text(*ours, "source");
    report.tokens_reused = Count(*ours, "tokens_reused");
    report.tokens_computed = Count(*ours, "tokens_computed");
    report.tokens_evicted = Count(*ours, "tokens_evicted");
    report.messages_evicted = Count(*ours, "messages_evicted");
    report.position = Count(*ours, "position");
    report.restore_ms = Number(*ours, "restore_ms").value_or(0);
    report.ttft_ms = Number(*ours, "ttft_ms");
    report.tokens_per_s = Number(*ours, "tokens_per_s");
  }
}

// Display text of a tool call: its head, its arguments and its end.
std::string CallBegin(const Json& item, bool first) {
  return (first ? "[calls " : "\n[calls ") + Text(item, "name") + ' ';
}
constexpr std::string_view kCallEnd = "]";

bool IsCall(const Json& item) { return Text(item, "type") == "function_call"; }

bool IsReasoning(const Json& item) { return Text(item, "type") == "reasoning"; }

std::string OutputText(const Json& response) {
  std::string text;
  const Json* output = Find(response, "output");
  if (output == nullptr || !output->is_array()) return text;
  for (const Json& item : *output) {
    if (IsReasoning(item)) continue;
    if (IsCall(item)) {
      text += CallBegin(item, text.empty()) + Text(item, "arguments");
      if (Text(item, "status") != "in_progress") text += kCallEnd;
    }
    const Json* content = Find(item, "content");
    if (content == nullptr || !content->is_array()) continue;
    for (const Json& part : *content) text += Text(part, "text");
  }
  return text;
}

std::string OutputReasoning(const Json& response) {
  std::string text;
  const Json* output = Find(response, "output");
  if (output == nullptr || !output->is_array()) return text;
  for (const Json& item : *output) {
    if (!IsReasoning(item)) continue;
    for (const char* list : {"summary", "content"}) {
      const Json* parts = Find(item, list);
      if (parts == nullptr || !parts->is_array()) continue;
      for (const Json& part : *parts) text += Text(part, "text");
    }
  }
  return text;
}

void ReadResponse(const Json& response, ServerEvent& event) {
  event.response_id = Text(response, "id");
  event.status = Text(response, "status");
  event.text = OutputText(response);
  event.reasoning = OutputReasoning(response);
  if (const Json* details = Find(response, "incomplete_details")) event.incomplete_reason = Text(*details, "reason");
  ReadReport(response, event.report);
  if (const Json* ours = Find(response, "ringside")) {
    event.history = ReadHistory(*ours);
    if (const std::string reason = Text(*ours, "incomplete_reason"); !reason.empty()) event.incomplete_reason = reason;
  }
  ReadError(response, event);
}

Kind KindOf(std::string_view type) {
  static constexpr std::pair<std::string_view, Kind> kKinds[] = {
      {"response.output_text.delta", Kind::kDelta},
      {"response.reasoning_text.delta", Kind::kReasoning},
      {"response.reasoning_summary_text.delta", Kind::kReasoning},
      {"response.created", Kind::kCreated},
      {"response.output_item.added", Kind::kDelta},
      {"response.function_call_arguments.delta", Kind::kDelta},
      {"response.output_item.done", Kind::kDelta},
      {"response.completed", Kind::kFinished},
      {"response.incomplete", Kind::kFinished},
      {"response.failed", Kind::kFinished},
      {"error", Kind::kError},
      {"ringside:session.resumed", Kind::kResumed},
      {"ringside:session.snapshot", Kind::kSnapshot},
      {"ringside:session.rewound", Kind::kRewound},
      {"ringside:session.forked", Kind::kForked},
      {"ringside:session.failed", Kind::kVerbFailed},
      {"ringside:session.evicted", Kind::kEvicted},
      {"ringside:response.queued", Kind::kQueued},
      {"ringside:server.draining", Kind::kDraining},
  };
  for (const auto& [name, kind] : kKinds) {
    if (name == type) return kind;
  }
  return Kind::kOther;
}

ServerEvent::Replay ReplayOf(const std::string& name) {
  if (name == "events") return ServerEvent::Replay::kEvents;
  return name == "snapshot" ? ServerEvent::Replay::kSnapshot : ServerEvent::Replay::kNone;
}

/// Text that an event adds to the display; empty for the start or end of a message.
std::string DeltaText(const Json& json, std::string_view type) {
  const Json* item = Find(json, "item");
  if (item == nullptr) return Text(json, "delta");
  if (!IsCall(*item)) return "";
  if (type == "response.output_item.done") return std::string(kCallEnd);
  return CallBegin(*item, Count(json, "output_index") == 0);
}

void ReadFields(const Json& json, ServerEvent& event) {
  switch (event.kind) {
    case Kind::kCreated:
    case Kind::kFinished:
      if (const Json* response = Find(json, "response")) ReadResponse(*response, event);
      break;
    case Kind::kDelta:
      event.text = DeltaText(json, event.type);
      if (event.text.empty()) event.kind = Kind::kOther;
      break;
    case Kind::kReasoning:
      event.text = Text(json, "delta");
      break;
    case Kind::kSnapshot:
      event.reasoning = Text(json, "reasoning");
      event.text = Find(json, "output") != nullptr ? OutputText(json) : Text(json, "text");
      event.response_id = Text(json, "response_id");
      event.next_seq = Unsigned(json, "next_seq");
      break;
    case Kind::kResumed:
      event.response_id = Text(json, "active_response_id");
      event.session_present = Find(json, "session_present") != nullptr && json["session_present"] == true;
      event.epoch = Unsigned(json, "epoch");
      event.next_seq = Unsigned(json, "next_seq");
      event.replay = ReplayOf(Text(json, "replay"));
      if (const Json* position = Find(json, "position")) event.history = ReadHistory(*position);
      break;
    case Kind::kRewound:
      event.items = Count(json, "items");
      break;
    case Kind::kVerbFailed:
      event.verb = Text(json, "verb");
      ReadError(json, event);
      break;
    case Kind::kError:
      ReadError(json, event);
      break;
    case Kind::kEvicted:
      event.report.messages_evicted = Count(json, "messages");
      event.report.tokens_evicted = Count(json, "tokens");
      break;
    case Kind::kQueued:
      event.response_id = Text(json, "response_id");
      event.position = Count(json, "position");
      break;
    case Kind::kForked:
    case Kind::kDraining:
    case Kind::kOther:
      break;
  }
}

}  // namespace

std::optional<ServerEvent> ParseServerEvent(std::string_view message) {
  const Json json = ParseJsonTree(message, kLargeJson);
  ServerEvent event;
  event.type = Text(json, "type");
  if (event.type.empty()) return std::nullopt;
  event.kind = KindOf(event.type);
  event.session = Text(json, "session");
  if (const Json* ours = Find(json, "ringside")) event.seq = Unsigned(*ours, "seq");
  ReadFields(json, event);
  return event;
}

std::optional<ServerEvent> ParseResponse(std::string_view body) {
  const Json json = ParseJsonTree(body, kLargeJson);
  if (!json.is_object()) return std::nullopt;
  ServerEvent event;
  ReadResponse(json, event);
  const bool runs = event.status == "in_progress" || event.status == "queued" || event.status.empty();
  event.kind = runs ? Kind::kOther : Kind::kFinished;
  return event;
}

}  // namespace ringside::client
