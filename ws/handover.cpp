#include "ws/handover.h"

#include <utility>

#include "base/log.h"
#include "ws/json/json_writer.h"

namespace ringside {

Handover::Handover(SessionTable& sessions, Health& health, std::function<void(bool)> refuse_turns,
                   std::function<std::string()> trouble)
    : sessions_(sessions), health_(health), refuse_turns_(std::move(refuse_turns)), trouble_(std::move(trouble)) {}

void Handover::Begin() {
  if (begun_.exchange(true)) return;
  LogInfo("drained by an administrator: {} conversations go to other servers", held());
  health_.SetNotReady("drained by an administrator");
  refuse_turns_(true);
  sessions_.HandOver(true);
}

void Handover::End() {
  if (!begun_.exchange(false)) return;
  LogInfo("resumed by an administrator");
  sessions_.HandOver(false);
  refuse_turns_(false);
  health_.SetReady(trouble_);
}

namespace {

HttpResponse Describe(const Handover& handover) {
  const int64_t held = handover.held();
  JsonWriter json;
  json.BeginObject().Field("object", "ringside.server");
  json.Field("state", !handover.begun() ? "serving" : held > 0 ? "draining" : "drained");
  json.Field("conversations_held", held).EndObject();
  HttpResponse response;
  response.body = json.Take();
  return response;
}

}  // namespace

void AddServerRoutes(Router& router, Handover& handover) {
  using Ids = Router::Parameters;
  const auto add = [&](const char* method, const char* path, const std::function<void()>& act) {
    router.Add(
        method, path,
        [&handover, act](const HttpRequest&, const Ids&) {
          if (act) act();
          return Describe(handover);
        },
        Scopes::Admin());
  };
  add("GET", "/v1/server", nullptr);
  add("POST", "/v1/server/drain", [&handover] { handover.Begin(); });
  add("POST", "/v1/server/resume", [&handover] { handover.End(); });
}

}  // namespace ringside
