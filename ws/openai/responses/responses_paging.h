// Lists in pages, as OpenAI's API cuts them: order, limit, after. Pure.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "base/status.h"
#include "session/chat/timeline.h"
#include "ws/fields/field_table.h"
#include "ws/transport/http/http.h"

namespace ringside {

struct Paging {
  int64_t limit = 20;
  bool ascending = false;
  std::string after;  // id of the last entry of the page before; "" = the first page
};

/// From the query's order (asc, desc), limit (1 to 100) and after. ERRORS: kInvalidArgument with `param`.
Result<Paging> ReadPaging(const HttpRequest& request, const FieldContext& context);
std::vector<FieldInfo> PagingFields();
/// The answer to a request for a page, JSON, with its ignored fields reported.
HttpResponse AnsweredPage(const SessionTableOptions& options, const HttpRequest& request,
                          const std::function<Result<std::string>(const Paging&)>& page_of);
inline constexpr size_t kMaxPageBytes = 4 << 20;  // the item that reaches it is a page's last

/// The list object of one page of `items` (given oldest first), copying no others. kNotFound if `after` is none of
/// them.
Result<std::string> PageOfItems(const SharedList<Item>& items, const Paging& paging);

}  // namespace ringside
