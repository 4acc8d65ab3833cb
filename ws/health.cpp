#include "ws/health.h"

#include <nlohmann/json.hpp>
#include <utility>

namespace ringside {
namespace {

HttpResponse Alive() {
  HttpResponse response;
  response.body = R"({"status":"ok"})";
  return response;
}

void Open(Service& service, const char* path) {
  service.open_paths.insert(path);
  service.probes.insert(path);
  service.router.AnswerAtOnce(path);
}

HttpResponse Readiness(const Health& health) {
  const std::string reason = health.NotReadyReason();
  nlohmann::json body = {{"status", reason.empty() ? "ok" : "unavailable"}};
  if (!reason.empty()) body["reason"] = reason;
  if (const auto stored = health.stored()) {
    body["stored"] = {{"conversations", stored->conversations},
                      {"chains", stored->chains},
                      {"damaged", stored->damaged},
                      {"checked", stored->checked}};
  }
  HttpResponse response;
  response.body = body.dump();
  if (reason.empty()) return response;
  response.status = 503;
  response.headers.emplace_back("Retry-After", "1");
  return response;
}

}  // namespace

void Health::SetReady(std::function<std::string()> trouble) {
  std::lock_guard lock(mutex_);
  reason_.clear();
  trouble_ = std::move(trouble);
}

void Health::SetNotReady(std::string reason) {
  std::lock_guard lock(mutex_);
  reason_ = std::move(reason);
  trouble_ = nullptr;
}

void Health::SetStored(const StoredCounts& stored) {
  std::lock_guard lock(mutex_);
  stored_ = stored;
}

std::optional<StoredCounts> Health::stored() const {
  std::lock_guard lock(mutex_);
  return stored_;
}

std::string Health::NotReadyReason() const {
  std::lock_guard lock(mutex_);
  if (!reason_.empty()) return reason_;
  return trouble_ ? trouble_() : "";
}

void AddHealthRoutes(Service& service, const Health& health) {
  for (const char* path : {"/healthz", "/livez", "/v2/health/live"}) {
    service.router.Add("GET", path, [](const HttpRequest&, const Router::Parameters&) { return Alive(); });
    Open(service, path);
  }
  for (const char* path : {"/readyz", "/health", "/v2/health/ready"}) {
    service.router.Add("GET", path,
                       [&health](const HttpRequest&, const Router::Parameters&) { return Readiness(health); });
    Open(service, path);
  }
}

}  // namespace ringside
