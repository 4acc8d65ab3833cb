#include "ws/openai/responses/responses_post.h"

#include <algorithm>
#include <charconv>

#include "base/clock.h"
#include "session/ids.h"
#include "ws/content/asked_model.h"
#include "ws/content/compaction.h"
#include "ws/content/request_digest.h"
#include "ws/content/response_objects.h"
#include "ws/content/response_request.h"
#include "ws/fields/common_fields.h"
#include "ws/fields/ignored_report.h"
#include "ws/fields/timeline_key.h"
#include "ws/json/json_writer.h"
#include "ws/openai/responses/responses_delivery.h"

namespace ringside {
namespace {

constexpr size_t kMaxKeptQuestionBytes = 64 << 10;  // limit of user messages kept by a compaction

// Deletes the response when its HTTP client leaves.
class UnstoredResponse {
 public:
  UnstoredResponse(SessionTable& table, uint64_t connection) : table_(table), connection_(connection) {}
  /// On an io thread, so blocking work is done elsewhere.
  ~UnstoredResponse() {
    table_.Post([&table = table_, connection = connection_] { table.DropConnection(connection); });
  }
  UnstoredResponse(const UnstoredResponse&) = delete;
  UnstoredResponse& operator=(const UnstoredResponse&) = delete;

 private:
  SessionTable& table_;
  const uint64_t connection_;
};

Result<TurnSpec> ReadRequest(SessionTable& table, const HttpRequest& request, JsonValue* body, IgnoredFields* ignored,
                             HttpDelivery* delivery) {
  ASSIGN_OR_RETURN(*body, ReadBody(request, /*may_be_empty=*/true));
  ASSIGN_OR_RETURN(const SessionTableOptions* const model, OptionsOf(table, CallerOf(request), *body));
  return ReadCreate(*body, *model, ignored, delivery);
}

/// The stock SDKs retry automatically and mark that only by this header.
bool IsSentAgain(const HttpRequest& request) {
  const std::string_view count = request.Header("x-stainless-retry-count");
  int64_t retries = 0;
  const auto parsed = std::from_chars(count.data(), count.data() + count.size(), retries);
  return parsed.ec == std::errc() && retries > 0;
}

HttpResponse Create(SessionTable& table, const HttpRequest& request, const RetryAfter& retry_after_ms,
                    IgnoredFields* ignored) {
  JsonValue body;
  HttpDelivery delivery;
  Result<TurnSpec> spec = ReadRequest(table, request, &body, ignored, &delivery);
  if (!spec.ok()) return ErrorResponse(spec.status());
  Caller caller = CallerOf(request);
  std::shared_ptr<void> unstored;
  if (!spec->store) {
    caller.connection = NextConnection();
    unstored = std::make_shared<UnstoredResponse>(table, caller.connection);
  } else if (spec->request_key.empty()) {
    spec->request_key = "http\n" + RequestDigest(body);
    spec->sending = IsSentAgain(request) ? TurnSpec::Sending::kAgain : TurnSpec::Sending::kFirst;
  }
  NoteTimelineKey(request, &*spec);
  if (Status status = CompactAndReport(table, caller, &*spec); !status.ok()) {
    return ErrorResponse(status, RetryAfterMs(retry_after_ms, status, request.principal));
  }
  const bool background = spec->background;
  const Result<TurnTicket> ticket = table.StartTurn(caller, std::move(*spec), nullptr);
  if (!ticket.ok()) {
    return ErrorResponse(ticket.status(), RetryAfterMs(retry_after_ms, ticket.status(), request.principal));
  }
  const std::string& id = ticket->response_id;
  if (delivery.stream) {
    HttpResponse answer = StreamEvents(table, caller, id, 0);
    answer.held = unstored;
    return answer;
  }
  if (background) return ResponseNow(table, caller, id);
  HttpResponse answer = AwaitEnd(table, caller, id, WhenFailed::kTellError);
  // The sink is destroyed first: nobody reads the events of the cancellation.
  answer.held = std::make_shared<std::pair<std::shared_ptr<void>, std::shared_ptr<void>>>(unstored, answer.held);
  return answer;
}

/// The newest of these messages, in order.
std::vector<NewItem> KeptQuestions(const std::vector<NewItem>& items) {
  std::vector<NewItem> kept;
  size_t bytes = 0;
  for (auto item = items.rbegin(); item != items.rend(); ++item) {
    if (item->role != ChatRole::kUser) continue;
    bytes += item->text.size();
    if (bytes > kMaxKeptQuestionBytes) break;
    kept.push_back(*item);
  }
  std::ranges::reverse(kept);
  return kept;
}

void WriteCompactionUsage(JsonWriter& json, const Summary& summary) {
  json.Key("usage").BeginObject().Field("input_tokens", summary.input_tokens);
  json.Key("input_tokens_details").BeginObject().Field("cached_tokens", summary.cached_tokens);
  json.Field("cache_write_tokens", summary.input_tokens - summary.cached_tokens).EndObject();
  json.Field("output_tokens", summary.output_tokens);
  json.Key("output_tokens_details").BeginObject().Field("reasoning_tokens", 0).EndObject();
  json.Field("total_tokens", summary.input_tokens + summary.output_tokens).EndObject();
}

Result<std::string> Compact(SessionTable& table, const HttpRequest& request, IgnoredFields* ignored) {
  JsonValue body;
  HttpDelivery delivery;
  ASSIGN_OR_RETURN(TurnSpec spec, ReadRequest(table, request, &body, ignored, &delivery));
  const Caller caller = CallerOf(request);
  NoteTimelineKey(request, &spec);
  ASSIGN_OR_RETURN(const WholeHistory history, HistoryOf(table, caller, spec));
  if (history.items.empty()) return MissingParameter("input");
  ASSIGN_OR_RETURN(const Summary summary, SummarizeHistory(table, caller, spec, history, history.items.size(), ""));
  JsonWriter json;
  json.BeginObject().Field("id", MakeId("resp_")).Field("object", "response.compaction");
  json.Field("created_at", static_cast<int64_t>(SystemClock::Instance().WallSeconds())).Key("output").BeginArray();
  for (const NewItem& question : KeptQuestions(history.items)) {
    for (const ItemView& view : ViewsOf({.id = MakeId("msg_"), .role = question.role, .text = question.text})) {
      json.Raw(view.json);
    }
  }
  json.Raw(CompactionItem(MakeId("msg_"), EncodeCompaction({.items = {SummaryItem(summary.text)}})));
  json.EndArray();
  WriteCompactionUsage(json, summary);
  WriteRingsideIgnored(json, ignored->names());
  return json.EndObject().Take();
}

}  // namespace

HttpResponse CompactResponse(SessionTable& table, const HttpRequest& request) {
  IgnoredFields ignored(table.options().strict_requests);
  Result<std::string> compacted = Compact(table, request, &ignored);
  if (!compacted.ok()) return ErrorResponse(compacted.status());
  HttpResponse answer;
  answer.body = *std::move(compacted);
  return Reported(std::move(answer), table.options(), request, ignored.names());
}

HttpResponse CreateResponse(SessionTable& table, const HttpRequest& request, const RetryAfter& retry_after_ms) {
  IgnoredFields ignored(table.options().strict_requests);
  HttpResponse answer = Create(table, request, retry_after_ms, &ignored);
  return Reported(std::move(answer), table.options(), request, ignored.names());
}

HttpResponse CountInputTokens(SessionTable& table, const HttpRequest& request) {
  JsonValue body;
  HttpDelivery delivery;
  IgnoredFields ignored(table.options().strict_requests);
  const Result<TurnSpec> spec = ReadRequest(table, request, &body, &ignored, &delivery);
  if (!spec.ok()) return ErrorResponse(spec.status());
  const Result<int64_t> tokens = table.CountInput(CallerOf(request), *spec);
  if (!tokens.ok()) return ErrorResponse(tokens.status());
  JsonWriter json;
  json.BeginObject().Field("object", "response.input_tokens").Field("input_tokens", *tokens);
  HttpResponse answer;
  WriteRingsideIgnored(json, ignored.names());
  answer.body = json.EndObject().Take();
  return Reported(std::move(answer), table.options(), request, ignored.names());
}

}  // namespace ringside
