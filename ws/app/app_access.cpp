#include "ws/app/app_access.h"

#include <algorithm>

#include "base/log.h"

namespace ringside {

Status AppAccess::Open(const ServerConfig& config) {
  flag_owners_ = config.api_keys.size();
  if (!config.keys_file.empty()) {
    Result<std::unique_ptr<KeyTable>> keys = KeyTable::Open(config.keys_file);
    if (!keys.ok()) return InvalidArgument("--keys-file: " + keys.status().message());
    keys_ = std::move(*keys);
    LogInfo("keys: {} in {}", keys_->size(), config.keys_file);
  }
  if (!config.tls_certificate.empty()) {
    Result<std::unique_ptr<TlsCertificate>> certificate = TlsCertificate::Open(config.tls_certificate, config.tls_key);
    if (!certificate.ok()) return InvalidArgument("--ssl-certfile, --ssl-keyfile: " + certificate.status().message());
    certificate_ = std::move(*certificate);
  }
  if (IsLoopbackHost(config.host)) return Status::Ok();
  if (certificate_ == nullptr) {
    LogWarning("{} is reachable from outside without TLS: keys and conversations are sent unencrypted", config.host);
  }
  if (config.api_keys.empty() && keys_ == nullptr) {
    LogWarning("{} is reachable from outside and no key is set: anyone can use the server", config.host);
  }
  return Status::Ok();
}

void AppAccess::Apply(const ServerConfig& config, ServerOptions& options) {
  options.access = {.api_keys = config.api_keys,
                    .allowed_origins = config.allowed_origins,
                    .host = config.host,
                    .allowed_hosts = config.allowed_hosts,
                    .keys = keys_.get(),
                    .tickets = &tickets_,
                    .tls = certificate_ != nullptr};
  options.connections_of = [this, all = options.max_connections, usual = config.max_connections_per_owner](
                               const std::string& owner) { return ConnectionsOf(owner, all, usual); };
  options.tls = certificate_.get();
}

OwnerLimits AppAccess::LimitsOf(const std::string& owner, const OwnerLimits& usual) const {
  if (keys_ == nullptr) return usual;
  const OwnerShare share = keys_->ShareOf(owner);
  return {.turns = share.turns.value_or(usual.turns),
          .sessions = share.sessions.value_or(usual.sessions),
          .bytes = share.text_mb ? *share.text_mb << 20 : usual.bytes,
          .tokens_per_minute = share.tokens_per_minute.value_or(usual.tokens_per_minute),
          .chains = share.chains.value_or(usual.chains),
          .stored_bytes = share.stored_mb ? *share.stored_mb << 20 : usual.stored_bytes};
}

int64_t AppAccess::ConnectionsOf(const std::string& owner, int64_t all, std::optional<int64_t> usual) const {
  if (keys_ != nullptr) {
    const OwnerShare share = keys_->ShareOf(owner);
    if (share.connections) return *share.connections > 0 ? *share.connections : all;
  }
  if (usual) return *usual;
  const size_t owners = flag_owners_ + (keys_ != nullptr ? keys_->owners() : 0);
  return owners > 1 ? std::max<int64_t>(all / 2, 1) : all;
}

void AppAccess::ReadKeys(bool anyway) {
  if (keys_ == nullptr) return;
  const Result<bool> taken = keys_->Reload(anyway);
  if (!taken.ok()) {
    LogError("keys: {}; the previous keys stay in use", taken.status().message());
  } else if (*taken) {
    LogInfo("keys: reloaded, {} in total", keys_->size());
  }
}

void AppAccess::Reload() {
  ReadKeys(/*anyway=*/true);
  if (certificate_ == nullptr) return;
  const Status read = certificate_->Reload();
  read.ok() ? LogInfo("certificate: reloaded")
            : LogError("certificate: {}; the previous certificate stays in use", read.message());
}

}  // namespace ringside
