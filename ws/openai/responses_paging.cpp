#include "ws/openai/responses_paging.h"

#include <algorithm>
#include <charconv>

#include "ws/openai/responses_objects.h"

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

Result<std::string> PageOfItems(std::vector<Item> items, const Paging& paging) {
  if (!paging.ascending) std::reverse(items.begin(), items.end());
  auto first = items.begin();
  if (!paging.after.empty()) {
    first = std::find_if(items.begin(), items.end(), [&](const Item& item) { return item.id == paging.after; });
    if (first == items.end()) return NotFound("No item '" + paging.after + "'.", "after", "item_not_found");
    ++first;
  }
  const bool has_more = items.end() - first > paging.limit;
  const auto last = has_more ? first + paging.limit : items.end();
  return ItemList({std::make_move_iterator(first), std::make_move_iterator(last)}, has_more);
}

}  // namespace ringside
