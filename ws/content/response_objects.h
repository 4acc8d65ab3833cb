// JSON objects of the Responses protocol: responses, items, lists, errors. Used by socket events, HTTP routes and
// replays, so that all are equal. Pure.
// THREAD: any.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/text/tokenizer.h"
#include "session/chat/timeline/timeline.h"
#include "session/journal/journal.h"
#include "session/turn/response.h"
#include "ws/json/json_writer.h"

namespace ringside {

/// The response object in its current state.
std::string ResponseObject(const Response& response);
/// As ResponseObject, with this status and these output items (JSON, with commas; "" = none), because an event may show
/// an earlier state.
std::string ResponseWith(const Response& response, ResponseStatus status, const std::string& output);
/// Response::echo with the ignored fields, which are reported in the response's "ringside" object.
std::string WithIgnored(std::string echo, const std::vector<std::string>& ignored);
/// Response::echo with more members of that object.
std::string WithReport(std::string echo, std::string_view members);
/// The request's reasoning settings as the first member of Response::echo.
std::string ReasoningEcho(const std::string& effort, const std::string& summary);
/// The response's output items, with commas: the compaction before it, its reasoning, its message and its tool calls,
/// as far as it has them.
std::string OutputItems(const Response& response);
/// An item of type compaction. `opaque` is Response::compaction.
std::string CompactionItem(const std::string& item_id, std::string_view opaque);
/// The message item around its content part ("" = none).
std::string MessageItem(const Response& response, std::string_view status, const std::string& part);
/// Status of a finished message: possibly cut, but not if tool calls follow.
const char* EndedMessageStatus(const Response& response);
/// An item of type function_call or custom_tool_call: call number `call` of the message `item_id`. `status` is
/// "in_progress", "completed" or "incomplete".
std::string CallItem(const std::string& item_id, size_t call, std::string_view status, std::string_view name,
                     std::string_view arguments);
/// Public id of that item.
std::string CallItemId(const std::string& item_id, size_t call);
/// The message of such an id; other ids are returned unchanged.
std::string MessageOf(const std::string& id);
/// True if the request asked for a reasoning summary: the reasoning is then sent as the summary instead of as text.
bool AsksForSummary(const Response& response);
/// An item of type reasoning. `status` as in CallItem; in progress it has no parts.
std::string ReasoningItem(const Response& response, std::string_view text, std::string_view status);
/// Its only part.
std::string ReasoningPart(std::string_view text, bool summary);
/// Public id of the reasoning of the message `item_id`.
std::string ReasoningItemId(const std::string& item_id);
/// A content part; `logprobs` is JSON.
std::string TextPart(std::string_view text, const std::string& logprobs);
std::string Logprobs(std::span<const OutputToken> tokens, const Tokenizer& tokenizer);

/// The client's view of an item. An assistant's item is shown as several: its reasoning, its message (if it has text or
/// nothing else) and each of its calls.
struct ItemView {
  std::string id, json;
};
std::vector<ItemView> ViewsOf(const Item& item);
/// {"object":"list","data":[...],"first_id","last_id","has_more"} of the selected items, in order.
std::string ItemList(const std::vector<ItemView>& items, bool has_more);
/// The calls of an assistant's item with their ids (ToolCallId's `prefix` unless the client named them).
struct IdentifiedCall {
  std::string id;
  ToolCall call;
};
std::vector<IdentifiedCall> CallsOf(const Item& item, std::string_view prefix);

/// An `error` frame. Empty `stream_id` = the default lane, no field.
std::string ErrorFrame(const Status& status, const std::string& stream_id, int64_t retry_after_ms = 0);
/// {"type","code","message","param"}, and "retry_after_ms" if a retry may succeed: the contents of `error`.
std::string ErrorObject(const Status& status, int64_t retry_after_ms = 0);

/// The "ringside" object of a finished response: its cache report and the request's ignored fields.
void WriteReport(JsonWriter& json, const Response& response);
/// Reason of an answer that filled its conversation (--session-len), in protocols without a value for it.
inline constexpr const char* kSessionFull = "session_full";
/// Reason why a response is incomplete, otherwise "".
std::string IncompleteReason(const Response& response);
/// IncompleteReason with the values of OpenAI's API: a repetition counts as max_output_tokens. The response's report
/// names it.
std::string IncompleteDetail(const Response& response);
/// "completed", "incomplete", ...
const char* ResponseStatusName(ResponseStatus status);
/// Members "seq" and "chain" of an object, if anything was recorded.
void WriteRecorded(JsonWriter& json, const JournalPosition& recorded);

}  // namespace ringside
