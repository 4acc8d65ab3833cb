#include "ws/openai/responses/responses_paging.h"

#include <algorithm>

#include "ws/content/response_objects.h"
#include "ws/fields/common_fields.h"
#include "ws/fields/ignored_report.h"

namespace ringside {

namespace {

Status ReadLimit(const JsonValue& value, const std::string& param, const FieldContext&, Paging* paging) {
  constexpr int64_t kMaxLimit = 100;
  const Result<int64_t> limit = ReadQueryCount(value, param, "");
  if (!limit.ok() || *limit < 1 || *limit > kMaxLimit) {
    return InvalidArgument("'limit' is an integer from 1 to 100.", param, "invalid_value");
  }
  paging->limit = *limit;
  return Status::Ok();
}

Status ReadOrder(const JsonValue& value, const std::string& param, const FieldContext&, Paging* paging) {
  const std::string& order = value.string();
  if (order != "asc" && order != "desc") {
    return InvalidArgument("'order' is 'asc' or 'desc'.", param, "invalid_value");
  }
  paging->ascending = order == "asc";
  return Status::Ok();
}

const FieldTable<Paging>& PagingTable() {
  static const FieldTable<Paging> table({{"limit", FieldType::kInteger, ReadLimit, FieldPolicy::kRead, "1 to 100"},
                                         {"order", FieldType::kString, ReadOrder, FieldPolicy::kRead, "asc, desc"},
                                         {"after", &Paging::after},
                                         {"include", Hint{}},
                                         {"include[]", Hint{}}});
  return table;
}

}  // namespace

Result<Paging> ReadPaging(const HttpRequest& request, const FieldContext& context) {
  Paging paging;
  RETURN_IF_ERROR(PagingTable().ReadQuery(request, context, &paging));
  return paging;
}

std::vector<FieldInfo> PagingFields() { return PagingTable().Describe(); }

HttpResponse AnsweredPage(const SessionTableOptions& options, const HttpRequest& request,
                          const std::function<Result<std::string>(const Paging&)>& page_of) {
  IgnoredFields ignored(options.strict_requests);
  const Result<Paging> paging = ReadPaging(request, {options, &ignored});
  if (!paging.ok()) return ErrorResponse(paging.status());
  Result<std::string> page = page_of(*paging);
  if (!page.ok()) return ErrorResponse(page.status());
  HttpResponse answer;
  answer.body = std::move(*page);
  return Reported(std::move(answer), options, request, ignored.names());
}

Result<std::string> PageOfItems(const SharedList<Item>& items, const Paging& paging) {
  const size_t size = items.size();
  // Indices in the requested order.
  const auto views_at = [&](size_t place) {
    std::vector<ItemView> views = ViewsOf(items[paging.ascending ? place : size - 1 - place]);
    if (!paging.ascending) std::reverse(views.begin(), views.end());
    return views;
  };
  size_t place = 0;
  std::vector<ItemView> page;
  if (!paging.after.empty()) {
    const std::string message = MessageOf(paging.after);
    while (place < size && items[paging.ascending ? place : size - 1 - place].id != message) ++place;
    std::vector<ItemView> views = place < size ? views_at(place++) : std::vector<ItemView>();
    const auto after = std::find_if(views.begin(), views.end(), [&](auto& view) { return view.id == paging.after; });
    if (after == views.end()) return NotFound("No item '" + paging.after + "'.", "after", "item_not_found");
    page.assign(std::make_move_iterator(after + 1), std::make_move_iterator(views.end()));
  }
  const auto limit = static_cast<size_t>(paging.limit);
  size_t bytes = 0, fitting = 0;  // of the page's first entries
  while (fitting < limit && (fitting == 0 || bytes <= kMaxPageBytes)) {
    if (fitting < page.size()) {
      bytes += page[fitting++].json.size();
    } else if (place < size) {
      for (ItemView& view : views_at(place++)) page.push_back(std::move(view));
    } else {
      break;
    }
  }
  const bool more = place < size || page.size() > fitting;
  page.resize(fitting);
  return ItemList(page, more);
}

}  // namespace ringside
