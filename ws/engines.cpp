#include "ws/engines.h"

#include <charconv>
#include <string>
#include <vector>

#include "base/log.h"
#include "engine/fleet/engine_fleet.h"
#include "ws/json/json_writer.h"

namespace ringside {
namespace {

/// Returns SIZE_MAX, which no engine has, if `text` is not a number.
size_t NumberIn(const std::string& text) {
  size_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return error == std::errc() && end == text.data() + text.size() ? number : SIZE_MAX;
}

void Write(JsonWriter& json, size_t id, const FleetEngine& engine) {
  const EngineStats& now = engine.stats;
  json.BeginObject().Field("id", id).Field("object", "ringside.engine").Field("state", EngineStateName(engine.state));
  json.Field("slots", now.slots).Field("slots_used", now.slots_used);
  json.Field("kv_bytes", now.kv_bytes).Field("kv_bytes_used", now.kv_bytes_used);
  json.Field("turns_running", now.turns_running).Field("turns_waiting", now.turns_waiting);
  json.Field("tokens_prefilled", now.tokens_prefilled).Field("tokens_decoded", now.tokens_decoded);
  json.Field("caches_saved", now.captures).Field("caches_restored", now.restores_host + now.restores_disk);
  json.Field("caches_rebuilt", now.rebuilds).EndObject();
}

HttpResponse List(const EngineFleet& engines) {
  JsonWriter json;
  json.BeginObject().Field("object", "list").Key("data").BeginArray();
  const std::vector<FleetEngine> all = engines.each();
  for (size_t i = 0; i < all.size(); ++i) Write(json, i, all[i]);
  json.EndArray().EndObject();
  HttpResponse response;
  response.body = json.Take();
  return response;
}

/// The engine's state, or the error of `done`.
HttpResponse Answer(const EngineFleet& engines, size_t id, const Status& done, const char* what) {
  if (!done.ok()) return ErrorResponse(done);
  LogInfo("engine {}: {}", id, what);
  JsonWriter json;
  Write(json, id, engines.each()[id]);
  HttpResponse response;
  response.body = json.Take();
  return response;
}

}  // namespace

void AddEngineRoutes(Router& router, EngineFleet& engines) {
  using Ids = Router::Parameters;
  router.Add(
      "GET", "/v1/engines", [&](const HttpRequest&, const Ids&) { return List(engines); }, Scopes::Admin());
  router.Add(
      "POST", "/v1/engines/{id}/drain",
      [&](const HttpRequest&, const Ids& ids) {
        const size_t id = NumberIn(ids[0]);
        return Answer(engines, id, engines.Drain(id), "gives its conversations away");
      },
      Scopes::Admin());
  router.Add(
      "POST", "/v1/engines/{id}/resume",
      [&](const HttpRequest&, const Ids& ids) {
        const size_t id = NumberIn(ids[0]);
        return Answer(engines, id, engines.Resume(id), "gets conversations again");
      },
      Scopes::Admin());
}

}  // namespace ringside
