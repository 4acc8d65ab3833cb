#include "ws/openai/responses/responses_paging.h"

#include <algorithm>
#include <charconv>

#include "ws/openai/responses/responses_objects.h"

namespace ringside {

Result<Paging> ReadPaging(const HttpRequest& request) {
  constexpr int64_t kMaxLimit = 100;
  Paging paging;
  if (const std::string_view text = request.Query("limit"); !text.empty()) {
    const auto parsed = std::from_chars(text.data(), text.data() + text.size(), paging.limit);
    if (parsed.ec != std::errc() || parsed.ptr != text.data() + text.size() || paging.limit < 1 ||
        paging.limit > kMaxLimit) {
      return InvalidArgument("'limit' is an integer from 1 to 100.", "limit", "invalid_value");
    }
  }
  if (const std::string_view order = request.Query("order"); !order.empty()) {
    if (order != "asc" && order != "desc") {
      return InvalidArgument("'order' is 'asc' or 'desc'.", "order", "invalid_value");
    }
    paging.ascending = order == "asc";
  }
  paging.after = request.Query("after");
  return paging;
}

Result<std::string> PageOfItems(const SharedList<Item>& items, const Paging& paging) {
  const size_t size = items.size();
  // Places count in the order that is asked for.
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
