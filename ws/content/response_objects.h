// The Responses protocol's objects as JSON: responses, items, lists, errors. Used by the socket's events, by the HTTP
// routes and by replays, so that all show the same. Pure; any thread.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/text/tokenizer.h"
#include "session/chat/timeline.h"
#include "session/journal/journal.h"
#include "session/turn/response.h"
#include "ws/json/json_writer.h"

namespace ringside {

/// The response object as it stands, as JSON. `model` is the served name, which an adapter's stands in for.
std::string ResponseObject(const Response& response, const Tokenizer& tokenizer, const std::string& model);
/// The same with this status and these output items (JSON, with commas; "" = none): an event may show a response as it
/// was earlier.
std::string ResponseWith(const Response& response, ResponseStatus status, const std::string& model,
                         const std::string& output);
/// Response::echo of a request with these ignored fields, which the object "ringside" of its response reports.
std::string WithIgnored(std::string echo, const std::vector<std::string>& ignored);
/// Response::echo with further members of that object.
std::string WithReport(std::string echo, std::string_view members);
/// The request's reasoning settings as the first member of Response::echo.
std::string ReasoningEcho(const std::string& effort, const std::string& summary);
/// The items of the response's output, with commas: the compaction before it, its reasoning and its message, if it has
/// them, and its tool calls.
std::string OutputItems(const Response& response, const Tokenizer& tokenizer);
/// An item of type compaction. `opaque` is Response::compaction.
std::string CompactionItem(const std::string& item_id, std::string_view opaque);
/// Its message around its content part ("" = none).
std::string MessageItem(const Response& response, std::string_view status, const std::string& part);
/// The status of the message where it has ended: it may be cut short, but not before tool calls.
const char* EndedMessageStatus(const Response& response);
/// An item of type function_call, or custom_tool_call: the `call`-th one of the message `item_id`. `status` is
/// "in_progress", "completed" or "incomplete".
std::string CallItem(const std::string& item_id, size_t call, std::string_view status, std::string_view name,
                     std::string_view arguments);
/// The public id of that item.
std::string CallItemId(const std::string& item_id, size_t call);
/// The message that such an id belongs to; another id as it is.
std::string MessageOf(const std::string& id);
/// True if the request asked for a summary of the reasoning: the reasoning is sent as that then, else as its text.
bool AsksForSummary(const Response& response);
/// An item of type reasoning. `status` as CallItem's; of one in progress it has no parts.
std::string ReasoningItem(const Response& response, std::string_view text, std::string_view status);
/// Its only part.
std::string ReasoningPart(std::string_view text, bool summary);
/// The public id of the reasoning of the message `item_id`.
std::string ReasoningItemId(const std::string& item_id);
/// A content part; `logprobs` is JSON.
std::string TextPart(std::string_view text, const std::string& logprobs);
std::string Logprobs(std::span<const OutputToken> tokens, const Tokenizer& tokenizer);

/// An item as clients see it. An assistant's is several: its reasoning, if it has any, its message, if it has text or
/// nothing else, and each of its calls.
struct ItemView {
  std::string id, json;
};
std::vector<ItemView> ViewsOf(const Item& item);
/// {"object":"list","data":[...],"first_id","last_id","has_more"} of items already chosen, in their order.
std::string ItemList(const std::vector<ItemView>& items, bool has_more);
/// The calls of an assistant's item, with their ids (ToolCallId's `prefix` where no client has named them).
struct IdentifiedCall {
  std::string id;
  ToolCall call;
};
std::vector<IdentifiedCall> CallsOf(const Item& item, std::string_view prefix);

/// An `error` frame. `stream_id` empty = the default lane, no field.
std::string ErrorFrame(const Status& status, const std::string& stream_id, int64_t retry_after_ms = 0);
/// {"type","code","message","param"}, and "retry_after_ms" where waiting helps: what `error` fields hold.
std::string ErrorObject(const Status& status, int64_t retry_after_ms = 0);

/// The object "ringside" of a finished response: its cache report and the ignored fields of its request.
void WriteReport(JsonWriter& json, const Response& response);
/// The reason of an answer that filled its conversation (--session-len), where a face defines no value for it.
inline constexpr const char* kSessionFull = "session_full";
/// Why a response is incomplete, "" for another.
std::string IncompleteReason(const Response& response);
/// IncompleteReason in the values of OpenAI's API: a repetition counts as max_output_tokens. The report of the response
/// names it.
std::string IncompleteDetail(const Response& response);
/// "completed", "incomplete", ...
const char* ResponseStatusName(ResponseStatus status);
/// Members "seq" and "chain" of an object, where anything was recorded.
void WriteRecorded(JsonWriter& json, const JournalPosition& recorded);

}  // namespace ringside
