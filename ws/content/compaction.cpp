#include "ws/content/compaction.h"

#include <algorithm>

#include "base/base64.h"
#include "base/refusals/context_overflow.h"
#include "session/ids.h"
#include "ws/content/item_fields.h"
#include "ws/content/response_objects.h"
#include "ws/json/json_value.h"
#include "ws/json/json_writer.h"

namespace ringside {
namespace {

constexpr std::string_view kCompactionPrefix = "ringside.c1:";

Item ItemOf(const NewItem& item) {
  std::vector<ItemImage> images;
  for (const NewImage& image : item.images) {
    if (image.image.file != nullptr) images.push_back(image.image);
  }
  if (images.size() < item.images.size()) images.clear();
  return {.id = MakeId("msg_"),
          .role = item.role,
          .text = item.text,
          .images = std::move(images),
          .reasoning = item.reasoning,
          .calls_at = item.calls_at,
          .call_ids = item.call_ids};
}

/// Gives calls the ids with which the client refers to them.
NewItem NewItemOf(const Item& item) {
  NewItem out{item.role, std::string(std::string_view(item.text)), item.calls_at, item.call_ids};
  out.reasoning = std::string_view(item.reasoning);
  out.images = ImagesOf(item);
  if (item.calls_at < 0 || !item.call_ids.empty()) return out;
  for (const auto& [id, call] : CallsOf(item, "call_")) out.call_ids += id + '\n';
  return out;
}

Status AuthenticationFailed(const std::string& param) {
  return InvalidArgument("This compaction was not made by this server.", param, "invalid_value");
}

/// The newest response if it ends the conversation, otherwise "".
std::string ResponseAtEnd(const SessionTable& table, const Caller& caller, const std::string& conversation,
                          size_t items) {
  const auto responses = table.ListResponses(caller, conversation, 1);
  const bool ends = responses.ok() && !responses->empty() && responses->back()->items_end == items;
  return ends ? responses->back()->id : "";
}

int64_t TokensIn(const Result<int64_t>& counted) {
  if (counted.ok()) return *counted;
  const auto overflow = ReadContextOverflow(counted.status());
  return overflow ? overflow->tokens : -1;
}

std::string ReportMembers(const CompactionReport& report) {
  JsonWriter json;
  WriteCompactionReport(json, report);
  return json.Take();
}

}  // namespace

void WriteCompactionReport(JsonWriter& json, const CompactionReport& report) {
  json.Key("compaction").BeginObject().Field("tokens_before", report.tokens_before);
  if (report.tokens_after > 0) json.Field("tokens_after", report.tokens_after);
  json.Field("by_model", report.summary.by_model).Field("input_tokens", report.summary.input_tokens);
  json.Field("cached_tokens", report.summary.cached_tokens).Field("output_tokens", report.summary.output_tokens);
  json.EndObject();
}

std::string EncodeCompaction(const Compaction& compaction) {
  JsonWriter json;
  json.BeginObject().Field("whole", compaction.whole).Key("items").BeginArray();
  for (const NewItem& item : compaction.items) {
    for (const ItemView& view : ViewsOf(ItemOf(item))) json.Raw(view.json);
  }
  return std::string(kCompactionPrefix) + EncodeBase64(json.EndArray().EndObject().Take());
}

Status ReadCompaction(const std::string& opaque, const std::string& param, IgnoredFields* ignored,
                      std::vector<NewItem>* history) {
  if (!opaque.starts_with(kCompactionPrefix)) return AuthenticationFailed(param);
  const auto text = DecodeBase64(std::string_view(opaque).substr(kCompactionPrefix.size()));
  if (!text) return AuthenticationFailed(param);
  const Result<JsonValue> value = ParseJson(*text);
  const JsonValue* const items = value.ok() ? value->Find("items") : nullptr;
  if (items == nullptr) return AuthenticationFailed(param);
  std::vector<NewItem> read;
  if (!ReadItems(*items, param, ignored, &read).ok()) return AuthenticationFailed(param);
  const JsonValue* const whole = value->Find("whole");
  if (whole != nullptr && whole->boolean()) history->resize(CountLeadingSystem(*history));
  std::ranges::move(read, std::back_inserter(*history));
  return Status::Ok();
}

Result<WholeHistory> HistoryOf(const SessionTable& table, const Caller& caller, const TurnSpec& spec) {
  WholeHistory history;
  SharedList<Item> items;
  if (!spec.conversation.empty()) {
    ASSIGN_OR_RETURN(items, table.GetItems(caller, spec.conversation));
  } else if (!spec.previous_response_id.empty()) {
    ASSIGN_OR_RETURN(items, table.GetItemsUpTo(caller, spec.previous_response_id));
  }
  for (const Item& item : items) history.items.push_back(NewItemOf(item));
  history.stored = history.items.size();
  history.items.insert(history.items.end(), spec.input.begin(), spec.input.end());
  return history;
}

Result<Summary> SummarizeHistory(SessionTable& table, const Caller& caller, const TurnSpec& spec,
                                 const WholeHistory& history, size_t items, const std::string& instructions) {
  const auto part = [&](size_t begin, size_t end) {
    return std::vector(history.items.begin() + static_cast<ptrdiff_t>(begin),
                       history.items.begin() + static_cast<ptrdiff_t>(end));
  };
  TurnSpec side = spec;
  if (!spec.conversation.empty()) {
    side.previous_response_id = ResponseAtEnd(table, caller, spec.conversation, history.stored);
  }
  side.carries_history = side.previous_response_id.empty();
  side.input =
      part(side.carries_history ? 0 : history.stored, std::max(items, side.carries_history ? 0 : history.stored));
  if (side.carries_history && !spec.conversation.empty()) {
    ASSIGN_OR_RETURN(const SessionInfo info, table.GetSession(caller, spec.conversation));
    if (!side.instructions) side.instructions = info.instructions;
  }
  return table.Summarize(caller, side, part(0, items), instructions);
}

Result<std::optional<CompactionReport>> CompactAbove(SessionTable& table, const Caller& caller,
                                                     const std::string& instructions, TurnSpec* spec) {
  std::optional<CompactionReport> report;
  if (!spec->compact_above) return report;
  const Result<int64_t> counted = table.CountInput(caller, *spec);
  const int64_t before = TokensIn(counted);
  if (before < 0) return counted.status();
  if (before <= *spec->compact_above) return report;
  ASSIGN_OR_RETURN(WholeHistory history, HistoryOf(table, caller, *spec));
  const size_t begin = CountLeadingSystem(history.items), end = BeginOfExchange(history.items);
  if (end <= begin || end == history.items.size()) return report;
  report.emplace().tokens_before = before;
  ASSIGN_OR_RETURN(report->summary, SummarizeHistory(table, caller, *spec, history, end, instructions));
  NewItem summary = SummaryItem(report->summary.text);
  std::vector<NewItem> kept{summary};
  kept.insert(kept.end(), history.items.begin() + static_cast<ptrdiff_t>(end), history.items.end());
  spec->compaction = EncodeCompaction({.whole = true, .items = kept});
  if (!spec->conversation.empty()) {
    RETURN_IF_ERROR(table.ReplaceItems(caller, spec->conversation, begin, std::min(end, history.stored), summary));
    spec->input.erase(spec->input.begin(),
                      spec->input.begin() + static_cast<ptrdiff_t>(std::max(end, history.stored) - history.stored));
  } else {
    spec->drops_history = !spec->previous_response_id.empty();
    kept.insert(kept.begin(), history.items.begin(), history.items.begin() + static_cast<ptrdiff_t>(begin));
    spec->input = std::move(kept);
  }
  report->tokens_after = TokensIn(table.CountInput(caller, *spec));
  return report;
}

Result<CompactionReport> CompactConversation(SessionTable& table, const Caller& caller, const std::string& id,
                                             const std::string& instructions) {
  TurnSpec spec;
  spec.conversation = id;
  CompactionReport report;
  ASSIGN_OR_RETURN(const SessionInfo info, table.GetSession(caller, id));
  report.tokens_before = info.tokens;
  ASSIGN_OR_RETURN(const WholeHistory history, HistoryOf(table, caller, spec));
  const size_t begin = CountLeadingSystem(history.items), end = BeginOfExchange(history.items);
  if (end <= begin) return InvalidArgument("There is no answer to compact.", "session", "invalid_value");
  ASSIGN_OR_RETURN(report.summary, SummarizeHistory(table, caller, spec, history, end, instructions));
  RETURN_IF_ERROR(table.ReplaceItems(caller, id, begin, end, SummaryItem(report.summary.text)));
  return report;
}

Status CompactAndReport(SessionTable& table, const Caller& caller, TurnSpec* spec) {
  ASSIGN_OR_RETURN(const std::optional<CompactionReport> report, CompactAbove(table, caller, "", spec));
  if (!report || !spec->echo) return Status::Ok();
  spec->echo = [echo = std::move(spec->echo), members = ReportMembers(*report)](const AnswerForm& form) {
    return WithReport(echo(form), members);
  };
  return Status::Ok();
}

}  // namespace ringside
