// Pagination as in OpenAI's API: order, limit, after. Pure.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "base/status.h"
#include "session/chat/timeline/timeline.h"
#include "ws/fields/field_table.h"
#include "ws/transport/http/http.h"

namespace ringside {

struct Paging {
  int64_t limit = 20;
  bool ascending = false;
  std::string after;  // id of the previous page's last entry; "" = the first page
};

/// Parses the query's order (asc, desc), limit (1 to 100) and after.
/// ERRORS: kInvalidArgument with `param`.
Result<Paging> ReadPaging(const HttpRequest& request, const FieldContext& context);
std::vector<FieldInfo> PagingFields();
/// The HTTP response with a page (JSON), reporting ignored fields.
HttpResponse AnsweredPage(const SessionTableOptions& options, const HttpRequest& request,
                          const std::function<Result<std::string>(const Paging&)>& page_of);
inline constexpr size_t kMaxPageBytes = 4 << 20;  // the item that reaches this size ends the page

/// The list object of one page of `items` (oldest first), copying only its items.
/// ERRORS: kNotFound if `after` is not among them.
Result<std::string> PageOfItems(const SharedList<Item>& items, const Paging& paging);

}  // namespace ringside
