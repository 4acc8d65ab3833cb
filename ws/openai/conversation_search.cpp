#include "ws/openai/conversation_search.h"

#include <utility>

#include "ws/content/response_objects.h"
#include "ws/fields/common_fields.h"
#include "ws/fields/ignored_report.h"
#include "ws/json/json_writer.h"

namespace ringside {
namespace {

constexpr int64_t kMostMatches = 50;

Status ReadText(const JsonValue& value, const std::string& param, const FieldContext&, SearchQuery* query) {
  RETURN_IF_ERROR(ReadString(value, param, &query->text));
  if (query->text.find_first_not_of(" \t\r\n") == std::string::npos || query->text.size() > kMaxSearchTextBytes) {
    return InvalidArgument("'query' is a text of 1 to 256 bytes.", param, "invalid_value");
  }
  return Status::Ok();
}

Status ReadMost(const JsonValue& value, const std::string& param, const FieldContext&, SearchQuery* query) {
  const Result<int64_t> limit = ReadQueryCount(value, param, "");
  if (!limit.ok() || *limit < 1 || *limit > kMostMatches) {
    return InvalidArgument("'limit' is an integer from 1 to 50.", param, "invalid_value");
  }
  query->limit = *limit;
  return Status::Ok();
}

const FieldTable<SearchQuery>& SearchTable() {
  static const FieldTable<SearchQuery> table(
      {{"query", FieldType::kString, ReadText, FieldPolicy::kRead, "1 to 256 bytes"},
       {"limit", FieldType::kInteger, ReadMost, FieldPolicy::kRead, "1 to 50"},
       {"after", &SearchQuery::after}});
  return table;
}

Result<std::string> SearchMessages(SessionTable& table, const HttpRequest& request, IgnoredFields* ignored) {
  SearchQuery query;
  RETURN_IF_ERROR(SearchTable().ReadQuery(request, {table.options(), ignored}, &query));
  if (query.text.empty()) return MissingParameter("query");
  ASSIGN_OR_RETURN(const SearchPage page, table.Search(CallerOf(request), query));
  JsonWriter json;
  json.BeginObject().Field("object", "list").Key("data").BeginArray();
  for (const SearchMatch& match : page.matches) {
    json.BeginObject().Field("id", match.session).Field("object", "conversation.match");
    json.Field("item_id", match.item_id).Field("role", ChatRoleName(match.role)).Key("excerpt").BeginObject();
    json.Field("before", match.before).Field("match", match.match).Field("after", match.after);
    json.EndObject().EndObject();
  }
  json.EndArray().TextOrNull("last_id", page.last_id).Field("has_more", page.has_more);
  return json.EndObject().Take();
}

}  // namespace

void AddSearchRoute(Router& router, SessionTable& table) {
  router.Add("GET", "/v1/conversations/search", [&table](const HttpRequest& request, const Router::Parameters&) {
    IgnoredFields ignored(table.options().strict_requests);
    Result<std::string> found = SearchMessages(table, request, &ignored);
    HttpResponse response = found.ok() ? JsonResponse(std::move(*found)) : ErrorResponse(found.status());
    return Reported(std::move(response), table.options(), request, ignored.names());
  });
}

RequestKind SearchRequestKind() { return {"GET /v1/conversations/search", SearchTable().Describe()}; }

}  // namespace ringside
