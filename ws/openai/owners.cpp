#include "ws/openai/owners.h"

#include <string>
#include <utility>
#include <vector>

#include "ws/json/json_writer.h"

namespace ringside {
namespace {

constexpr size_t kMostOwners = 10'000;  // of one answer; the totals count all
constexpr int64_t kIdsOfAPage = 1'000;

void WriteTotals(JsonWriter& json, const OwnerTotals& totals) {
  json.Field("conversations", totals.conversations).Field("chains", totals.chains);
  json.Field("stored_bytes", totals.stored_bytes).Field("text_bytes", totals.text_bytes);
  json.Field("turns", totals.turns);
}

std::string ListOwners(const SessionTable& table) {
  const std::vector<OwnerTotals> owners = table.Owners();
  OwnerTotals all;
  JsonWriter json;
  json.BeginObject().Field("object", "list").Key("data").BeginArray();
  for (size_t i = 0; i < owners.size(); ++i) {
    const OwnerTotals& one = owners[i];
    all.conversations += one.conversations;
    all.chains += one.chains;
    all.stored_bytes += one.stored_bytes;
    all.text_bytes += one.text_bytes;
    all.turns += one.turns;
    if (i >= kMostOwners) continue;
    json.BeginObject().Field("owner", one.owner).Field("object", "ringside.owner");
    WriteTotals(json, one);
    json.EndObject();
  }
  json.EndArray().Field("has_more", owners.size() > kMostOwners);
  json.Key("totals").BeginObject().Field("owners", owners.size());
  WriteTotals(json, all);
  return json.EndObject().EndObject().Take();
}

Result<std::string> ListIds(const SessionTable& table, const HttpRequest& request) {
  bool more = false;
  ASSIGN_OR_RETURN(
      const std::vector<std::string> ids,
      table.ListIds(std::string(request.Query("owner")), std::string(request.Query("after")), kIdsOfAPage, &more));
  JsonWriter json;
  json.BeginObject().Field("object", "list").Key("data").BeginArray();
  for (const std::string& id : ids) json.BeginObject().Field("id", id).EndObject();
  json.EndArray().TextOrNull("last_id", ids.empty() ? "" : ids.back()).Field("has_more", more);
  return json.EndObject().Take();
}

}  // namespace

void AddOwnerRoutes(Router& router, const SessionTable& table) {
  using Ids = Router::Parameters;
  router.Add(
      "GET", "/v1/owners", [&table](const HttpRequest&, const Ids&) { return JsonResponse(ListOwners(table)); },
      Scopes::Admin());
  router.Add(
      "GET", "/v1/owners/conversations",
      [&table](const HttpRequest& request, const Ids&) {
        Result<std::string> ids = ListIds(table, request);
        return ids.ok() ? JsonResponse(std::move(*ids)) : ErrorResponse(ids.status());
      },
      Scopes::Admin());
}

}  // namespace ringside
