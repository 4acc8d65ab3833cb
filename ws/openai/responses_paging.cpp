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

Result<std::string> PageOfItems(const SharedList<Item>& items, const Paging& paging) {
  const size_t size = items.size();
  // Places count in the order that is asked for.
  const auto at = [&](size_t place) -> const Item& { return items[paging.ascending ? place : size - 1 - place]; };
  size_t first = 0;
  if (!paging.after.empty()) {
    while (first < size && at(first).id != paging.after) ++first;
    if (first == size) return NotFound("No item '" + paging.after + "'.", "after", "item_not_found");
    ++first;
  }
  const size_t end = std::min(size, first + static_cast<size_t>(paging.limit));
  std::vector<Item> page;
  for (size_t place = first; place < end; ++place) page.push_back(at(place));
  return ItemList(page, end < size);
}

}  // namespace ringside
