#include "ws/content/response_objects.h"

#include <algorithm>

#include "ws/content/image_fields.h"
#include "ws/content/returned_reasoning.h"
#include "ws/content/tool_names.h"
#include "ws/fields/ignored_report.h"
#include "ws/json/json_writer.h"
#include "ws/transport/http/http.h"

namespace ringside {
namespace {

void WriteLogprob(JsonWriter& json, const Tokenizer& tokenizer, TokenId id, float logprob) {
  const std::string_view text = tokenizer.TokenBytes(id), bytes = text.empty() ? tokenizer.TokenName(id) : text;
  json.Field("token", bytes);
  json.Field("logprob", static_cast<double>(logprob));
  json.Key("bytes").BeginArray();
  for (const char c : bytes) json.Value(static_cast<int>(static_cast<unsigned char>(c)));
  json.EndArray();
}

void WriteUsage(JsonWriter& json, const Response& response) {
  json.BeginObject().Field("input_tokens", response.input_tokens);
  json.Key("input_tokens_details").BeginObject();
  json.Field("cached_tokens", response.report.tokens_reused);
  json.Field("cache_write_tokens", response.report.tokens_computed).EndObject();
  json.Field("output_tokens", response.output_tokens);
  json.Key("output_tokens_details").BeginObject().Field("reasoning_tokens", response.reasoning_tokens);
  json.EndObject();
  json.Field("total_tokens", response.input_tokens + response.output_tokens).EndObject();
}

void WriteClamped(JsonWriter& json, const ClampedLimits& clamped) {
  json.Key("clamped").BeginObject();
  if (clamped.memory_len) json.Field("memory_len", *clamped.memory_len);
  if (clamped.session_len) json.Field("session_len", *clamped.session_len);
  if (clamped.pinned) json.Field("pinned", *clamped.pinned);
  json.EndObject();
}

void WriteFailure(JsonWriter& json, const Response& response, ResponseStatus status) {
  json.Key("error");
  const Status& cause = response.error;
  if (cause.ok() || status == ResponseStatus::kInProgress) {
    json.Null();
    return;
  }
  const WireError error = MapStatus(cause);
  json.BeginObject().Field("code", cause.code() == StatusCode::kInvalidArgument ? "invalid_prompt" : error.code);
  json.Field("message", error.message).EndObject();
}

/// Separates, in an echo, members of the response object from members of its "ringside". JsonWriter never writes a line
/// feed.
constexpr char kReportMark = '\n';

/// Start of the echo of a request for a summary, see ReasoningEcho.
constexpr std::string_view kSummaryEcho = R"("reasoning":{"summary":")";

struct Echo {
  std::string_view fields, report;
};
Echo SplitEcho(std::string_view echo) {
  const size_t at = echo.find(kReportMark);
  return {echo.substr(0, at), at == std::string_view::npos ? std::string_view() : echo.substr(at + 1)};
}

std::string CallObject(const std::string& id, const std::string& call_id, std::string_view status,
                       std::string_view name, std::string_view arguments) {
  const ClientTool tool = ClientToolOf(name);
  JsonWriter json;
  json.BeginObject().Field("id", id).Field("type", tool.custom ? "custom_tool_call" : "function_call");
  json.Field("status", status).Field("call_id", call_id).Field("name", tool.name);
  if (!tool.space.empty()) json.Field("namespace", tool.space);
  tool.custom ? json.Field("input", CustomInput(arguments)) : json.Field("arguments", arguments);
  return json.EndObject().Take();
}

std::string ReasoningObject(const std::string& id, std::string_view text, std::string_view status, bool summary) {
  const bool open = status == "in_progress";
  JsonWriter json;
  json.BeginObject().Field("id", id).Field("type", "reasoning").Field("status", status);
  json.Key("summary").BeginArray();
  if (summary && !open) json.Raw(ReasoningPart(text, true));
  json.EndArray();
  if (!summary) {
    json.Key("content").BeginArray();
    if (!open) json.Raw(ReasoningPart(text, false));
    json.EndArray();
  }
  if (!open) json.Field("encrypted_content", EncodeReasoning(text));
  return json.EndObject().Take();
}

std::string ResultObject(const Item& item) {
  JsonWriter json;
  json.BeginObject().Field("id", item.id).Field("type", "function_call_output").Field("status", "completed");
  json.Field("call_id", item.call_ids).Key("output");
  item.images.empty() ? (void)json.Value(std::string_view(item.text)) : WriteInputParts(json, item);
  return json.EndObject().Take();
}

std::string MessageObject(const Item& item, bool calls_follow) {
  const bool answer = item.role == ChatRole::kAssistant;
  JsonWriter json;
  json.BeginObject().Field("id", item.id).Field("type", "message");
  json.Field("status", item.complete || calls_follow ? "completed" : "incomplete");
  json.Field("role", ChatRoleName(item.role)).Key("content");
  if (!item.images.empty()) {
    WriteInputParts(json, item);
    return json.EndObject().Take();
  }
  json.BeginArray().BeginObject();
  json.Field("type", answer ? "output_text" : "input_text");
  json.Field("text", std::string_view(item.text).substr(0, static_cast<size_t>(item.calls_at)));
  if (answer) {
    json.Key("annotations").BeginArray().EndArray();
    json.Key("logprobs").BeginArray().EndArray();
  }
  return json.EndObject().EndArray().EndObject().Take();
}

}  // namespace

const char* ResponseStatusName(ResponseStatus status) {
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

std::string IncompleteReason(const Response& response) {
  if (response.status != ResponseStatus::kIncomplete) return "";
  if (!response.incomplete_reason.empty()) return response.incomplete_reason;
  if (response.reason == FinishReason::kRepetition) return kRepetition;
  return response.reason == FinishReason::kSessionFull ? kSessionFull : "max_output_tokens";
}

std::string IncompleteDetail(const Response& response) {
  std::string reason = IncompleteReason(response);
  return reason == kRepetition ? "max_output_tokens" : reason;
}

void WriteReport(JsonWriter& json, const Response& response) {
  const CacheReport& report = response.report;
  json.BeginObject().Field("source", CacheSourceName(report.source)).Field("tokens_reused", report.tokens_reused);
  json.Field("tokens_computed", report.tokens_computed).Field("tokens_evicted", report.tokens_evicted);
  json.Field("messages_evicted", report.messages_evicted).Field("restore_ms", report.restore_ms);
  json.Field("position", report.position);
  if (report.tokens_replayed > 0) json.Field("tokens_replayed", report.tokens_replayed);
  if (!response.reasoning.empty()) {
    json.Field("reasoning_tokens", response.reasoning_tokens).Field("reasoning_ms", response.reasoning_ms);
  }
  if (response.retokenised) json.Field("retokenised", true);
  if (IncompleteReason(response) == kRepetition) json.Field("incomplete_reason", kRepetition);
  if (response.clamped.any()) WriteClamped(json, response.clamped);
  if (const DraftReport& drafts = response.drafts; drafts.steps > 0) {
    json.Key("speculation").BeginObject().Field("drafted", drafts.drafted).Field("accepted", drafts.accepted);
    json.Field("steps", drafts.steps).EndObject();
  }
  json.Field("ttft_ms", response.times.queue_ms + response.times.prefill_ms);
  json.Key("waited").BeginObject().Field("slot_ms", response.times.slot_ms);
  json.Field("restore_ms", report.restore_ms).Field("others_ms", response.times.others_ms);
  json.Field("prompt_ms", std::max(response.times.prefill_ms - response.times.others_ms, 0.0)).EndObject();
  // The first token belongs to the prefill.
  const double seconds = response.times.decode_ms / 1000;
  const auto tokens = static_cast<double>(response.output_tokens - 1);
  json.Key("tokens_per_s");
  seconds > 0 && tokens > 0 ? json.Value(tokens / seconds) : json.Null();
  WriteRecorded(json, response.recorded);
  if (const Echo echo = SplitEcho(response.echo); !echo.report.empty()) json.Raw(echo.report);
  json.EndObject();
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

const char* EndedMessageStatus(const Response& response) {
  const bool whole =
      response.running() || !response.call_steps.empty() || response.status == ResponseStatus::kCompleted;
  return whole ? "completed" : "incomplete";
}

std::string MessageItem(const Response& response, std::string_view status, const std::string& part) {
  JsonWriter json;
  json.BeginObject().Field("id", response.item_id).Field("type", "message").Field("status", status);
  json.Field("role", "assistant").Key("content").BeginArray();
  if (!part.empty()) json.Raw(part);
  return json.EndArray().EndObject().Take();
}

std::string ResponseWith(const Response& response, ResponseStatus status, const std::string& output) {
  JsonWriter json;
  // Times are whole seconds, because some clients accept no fractions.
  json.BeginObject().Field("id", response.id).Field("object", "response");
  json.Field("created_at", static_cast<int64_t>(response.created_at));
  json.Field("status", ResponseStatusName(status)).Key("completed_at");
  const bool ended = response.completed_at > 0 && status == ResponseStatus::kCompleted;
  ended ? json.Value(static_cast<int64_t>(response.completed_at)) : json.Null();
  WriteFailure(json, response, status);
  json.Key("incomplete_details");
  if (status == ResponseStatus::kIncomplete) {
    json.BeginObject().Field("reason", IncompleteDetail(response)).EndObject();
  } else {
    json.Null();
  }
  json.Field("model", response.adapter.empty() ? response.model_name : response.adapter);
  json.TextOrNull("previous_response_id", response.previous_id).Key("conversation");
  if (response.conversation_id.empty()) {
    json.Null();
  } else {
    json.BeginObject().Field("id", response.conversation_id).EndObject();
  }
  const Echo echo = SplitEcho(response.echo);
  if (!echo.fields.empty()) json.Raw(echo.fields);
  json.Key("output").BeginArray();
  if (!output.empty()) json.Raw(output);
  json.EndArray().Key("usage");
  if (status == ResponseStatus::kInProgress) {
    json.Null();
    if (!echo.report.empty()) json.Key("ringside").BeginObject().Raw(echo.report).EndObject();
  } else {
    WriteUsage(json, response);
    json.Key("ringside");
    WriteReport(json, response);
  }
  return json.EndObject().Take();
}

std::string WithIgnored(std::string echo, const std::vector<std::string>& ignored) {
  if (ignored.empty()) return echo;
  JsonWriter json;
  WriteIgnored(json, ignored);
  return WithReport(std::move(echo), json.text());
}

std::string WithReport(std::string echo, std::string_view members) {
  echo += SplitEcho(echo).report.empty() ? kReportMark : ',';
  return echo.append(members);
}

std::string CompactionItem(const std::string& item_id, std::string_view opaque) {
  JsonWriter json;
  json.BeginObject().Field("id", "cmp_" + item_id.substr(item_id.find('_') + 1)).Field("type", "compaction");
  return json.Field("encrypted_content", opaque).EndObject().Take();
}

void WriteRecorded(JsonWriter& json, const JournalPosition& recorded) {
  if (recorded.seq == 0) return;
  json.Field("seq", recorded.seq).Field("chain", recorded.chain.Hex());
}

std::string ReasoningItemId(const std::string& item_id) { return "rs_" + item_id.substr(item_id.find('_') + 1); }

bool AsksForSummary(const Response& response) { return response.echo.starts_with(kSummaryEcho); }

std::string ReasoningPart(std::string_view text, bool summary) {
  JsonWriter json;
  json.BeginObject().Field("type", summary ? "summary_text" : "reasoning_text").Field("text", text);
  return json.EndObject().Take();
}

std::string ReasoningItem(const Response& response, std::string_view text, std::string_view status) {
  return ReasoningObject(ReasoningItemId(response.item_id), text, status, AsksForSummary(response));
}

std::string ReasoningEcho(const std::string& effort, const std::string& summary) {
  JsonWriter json;
  json.Key("reasoning").BeginObject().TextOrNull("summary", summary).TextOrNull("effort", effort).EndObject();
  return json.Take();
}

std::string CallItemId(const std::string& item_id, size_t call) { return ToolCallId("fc_", item_id, call); }

std::string MessageOf(const std::string& id) {
  if (id.starts_with("rs_")) return "msg_" + id.substr(3);
  if (!id.starts_with("fc_")) return id;
  return "msg_" + id.substr(3, id.rfind('_') - 3);
}

std::string CallItem(const std::string& item_id, size_t call, std::string_view status, std::string_view name,
                     std::string_view arguments) {
  return CallObject(CallItemId(item_id, call), ToolCallId("call_", item_id, call), status, name, arguments);
}

std::string OutputItems(const Response& response) {
  std::string items = response.compaction.empty() ? "" : CompactionItem(response.item_id, response.compaction);
  if (!response.reasoning_ends.empty()) {
    if (!items.empty()) items += ',';
    const char* status = !response.reasoning_ended   ? "in_progress"
                         : response.cut_in_reasoning ? "incomplete"
                                                     : "completed";
    items += ReasoningItem(response, response.reasoning, status);
  }
  if (response.opened) {
    if (!items.empty()) items += ',';
    const bool open = response.running() && response.call_steps.empty();
    items += MessageItem(response, open ? "in_progress" : EndedMessageStatus(response),
                         TextPart(response.message(), Logprobs(response.tokens, *response.tokenizer)));
  }
  const std::vector<ToolCall> calls = response.tool_calls();
  for (size_t i = 0; i < calls.size(); ++i) {
    if (!items.empty()) items += ',';
    const bool open = response.running() && i + 1 == calls.size();
    const char* status = calls[i].complete ? "completed" : open ? "in_progress" : "incomplete";
    items += CallItem(response.item_id, i, status, calls[i].name, calls[i].arguments);
  }
  return items;
}

std::string ResponseObject(const Response& response) {
  return ResponseWith(response, response.status, OutputItems(response));
}

std::vector<IdentifiedCall> CallsOf(const Item& item, std::string_view prefix) {
  std::vector<IdentifiedCall> calls;
  if (item.calls_at < 0) return calls;
  std::string_view ids = item.call_ids;
  for (ToolCall& call : ReadToolCalls(std::string_view(item.text).substr(static_cast<size_t>(item.calls_at)))) {
    std::string id(ids.substr(0, ids.find('\n')));
    ids.remove_prefix(std::min(id.size() + 1, ids.size()));
    if (id.empty()) id = ToolCallId(prefix, item.id, calls.size());
    calls.push_back({std::move(id), std::move(call)});
  }
  return calls;
}

std::vector<ItemView> ViewsOf(const Item& item) {
  if (item.role == ChatRole::kTool) return {{item.id, ResultObject(item)}};
  const std::vector<IdentifiedCall> calls = CallsOf(item, "call_");
  std::vector<ItemView> views;
  const std::string_view reasoning = item.reasoning;
  const bool cut_in_reasoning = std::string_view(item.text).empty() && !item.complete;
  if (!reasoning.empty()) {
    std::string id = ReasoningItemId(item.id);
    std::string json = ReasoningObject(id, reasoning, cut_in_reasoning ? "incomplete" : "completed", false);
    views.push_back({std::move(id), std::move(json)});
    if (cut_in_reasoning) return views;
  }
  if (item.calls_at != 0 || calls.empty()) views.push_back({item.id, MessageObject(item, !calls.empty())});
  for (size_t i = 0; i < calls.size(); ++i) {
    const auto& [call_id, call] = calls[i];
    std::string id = CallItemId(item.id, i);
    std::string json = CallObject(id, call_id, call.complete ? "completed" : "incomplete", call.name, call.arguments);
    views.push_back({std::move(id), std::move(json)});
  }
  return views;
}

std::string ItemList(const std::vector<ItemView>& items, bool has_more) {
  JsonWriter json;
  json.BeginObject().Field("object", "list").Key("data").BeginArray();
  for (const ItemView& item : items) json.Raw(item.json);
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

}  // namespace ringside
