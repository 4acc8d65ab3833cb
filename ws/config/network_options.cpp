// Socket options: listening address, access, limits and timeouts.
#include <sstream>

#include "ws/access/secret_file.h"
#include "ws/config/config_options.h"
#include "ws/config/config_values.h"

namespace ringside {
namespace {

using Kind = ConfigOption::Kind;

Status AddKey(ServerConfig& config, const std::string& key) {
  for (const char c : key) {
    // A key travels in a header and in a subprotocol name.
    if (c <= ' ' || c >= 127) return InvalidArgument("a key may contain visible ASCII characters only");
  }
  if (key.empty()) return InvalidArgument("a key is empty");
  config.api_keys.push_back(key);
  return Status::Ok();
}

Status ApplyKeys(ServerConfig& config, const Values& values) {
  for (const std::string& key : values) RETURN_IF_ERROR(AddKey(config, key));
  return Status::Ok();
}

Status ApplyKeyFile(ServerConfig& config, const Values& values) {
  ASSIGN_OR_RETURN(const std::string text, ReadSecretFile(values.back()));
  std::istringstream file(text);
  size_t keys = 0;
  for (std::string line; std::getline(file, line);) {
    while (!line.empty() && (line.back() == '\r' || line.back() == ' ')) line.pop_back();
    if (line.empty() || line[0] == '#') continue;
    RETURN_IF_ERROR(AddKey(config, line));
    ++keys;
  }
  // An empty file was meant to restrict access and must not leave it open.
  if (keys == 0) return InvalidArgument("\"" + values.back() + "\" holds no key");
  return Status::Ok();
}

Status ApplyOrigins(ServerConfig& config, const Values& values) {
  for (const std::string& value : values) {
    std::string origin = value;
    while (!origin.empty() && origin.back() == '/') origin.pop_back();
    const bool web = origin.starts_with("http://") || origin.starts_with("https://");
    if (origin != "*" && (!web || origin.find('/', 8) != std::string::npos)) {
      return BadValue(value, "an origin such as https://chat.example.org, or *");
    }
    config.allowed_origins.push_back(origin);
  }
  return Status::Ok();
}

Status ApplyHosts(ServerConfig& config, const Values& values) {
  for (const std::string& value : values) {
    if (value.empty() || value.find_first_of("/: ") != std::string::npos) {
      return BadValue(value, "a name such as chat.example.org, without a port, or *");
    }
    config.allowed_hosts.push_back(value);
  }
  return Status::Ok();
}

Status ApplyImageHosts(ServerConfig& config, const Values& values) {
  for (const std::string& value : values) {
    const Result<WebOrigin> host = ParseImageHost(value);
    if (!host.ok()) return BadValue(value, "a host such as images.example.org, https://HOST:PORT or http://HOST");
    config.image_hosts.push_back(*host);
  }
  return Status::Ok();
}

Status ApplyMetricsPort(ServerConfig& config, const Values& values) {
  ASSIGN_OR_RETURN(config.metrics_port, ParseInteger(values.back(), 0, 65535));
  return Status::Ok();
}

}  // namespace

std::vector<ConfigOption> NetworkSettings() {
  using C = ServerConfig;
  return {
      {"host", {}, Kind::kValue, "ADDRESS", "address to listen on [127.0.0.1]", Text(&C::host)},
      {"port",
       {},
       Kind::kValue,
       "N",
       "port to listen on; 0 takes a free one and prints it [8080]",
       Integer(&C::port, 0, 65535)},
      {"api-key",
       {},
       Kind::kList,
       "KEY",
       "key that clients must present; may be repeated [none: no key needed]",
       ApplyKeys},
      {"api-key-file", {}, Kind::kValue, "PATH", "file of mode 0400 or 0600 with one key per line", ApplyKeyFile},
      {"keys-file",
       {},
       Kind::kValue,
       "PATH",
       "file of mode 0400 or 0600 with hashed keys, their owners, scopes and ends, made with `ringside keys`; read "
       "again "
       "when it changes",
       Text(&C::keys_file)},
      {"allowed-hosts",
       {},
       Kind::kList,
       "NAME",
       "further host name that requests may use; this machine's names and all addresses always work; may be repeated; "
       "* "
       "allows all",
       ApplyHosts},
      {"ssl-certfile",
       {},
       Kind::kValue,
       "PATH",
       "serve https and wss: the certificate and its chain, in PEM",
       Text(&C::tls_certificate)},
      {"ssl-keyfile", {}, Kind::kValue, "PATH", "its private key, in PEM [in --ssl-certfile]", Text(&C::tls_key)},
      {"metrics-port",
       {},
       Kind::kValue,
       "N",
       "serve /metrics on a separate port, without a key, instead of on the API's; 0 takes a free one [--port]",
       ApplyMetricsPort},
      {"metrics-host",
       {},
       Kind::kValue,
       "ADDRESS",
       "address that --metrics-port listens on [127.0.0.1]",
       Text(&C::metrics_host)},
      {"allowed-origins",
       {},
       Kind::kList,
       "ORIGIN",
       "further web origin that may connect; the server's own always may; may be repeated; * allows all",
       ApplyOrigins},
      {"allowed-image-hosts",
       {},
       Kind::kList,
       "HOST",
       "host that images may be fetched from when a request has their URL, over https unless it begins with http://; "
       "may "
       "be repeated [none]",
       ApplyImageHosts},
      {"allow-public",
       {},
       Kind::kSwitch,
       "",
       "listen on a public address although no key is set",
       Switch(&C::allow_public)},
      {"no-ui", {}, Kind::kSwitch, "", "serve no page at /", Switch(&C::no_ui)},
      {"ui-dir",
       {},
       Kind::kValue,
       "PATH",
       "read the page's files from this folder at every request, for its development [those in the program]",
       Text(&C::ui_dir)},
      {"io-threads", {}, Kind::kValue, "N", "threads that read and write sockets [2]", Integer(&C::io_threads, 1, 64)},
      {"worker-threads",
       {},
       Kind::kValue,
       "N",
       "threads that parse, tokenise, and read what is stored [2]",
       Integer(&C::worker_threads, 1, 256)},
      {"max-connections",
       {},
       Kind::kValue,
       "N",
       "most open sockets [1024, or what the limit of open files allows]",
       Integer(&C::max_connections, 1, limits::kMaxConnections)},
      {"max-connections-per-owner",
       {},
       Kind::kValue,
       "N",
       "most open sockets of one owner, or of one address where no keys are set [half of --max-connections if there "
       "are "
       "several owners]",
       Integer(&C::max_connections_per_owner, 1, limits::kMaxConnections)},
      {"max-request-mb",
       {},
       Kind::kValue,
       "N",
       "largest request to a model that reads images, MiB; its text, and other requests, may have 4 [32]",
       Integer(&C::max_request_mb, limits::kMaxMessageBytes >> 20, limits::kMaxImageRequestBytes >> 20)},
      {"max-connection-age",
       {},
       Kind::kValue,
       "SECONDS",
       "close a WebSocket after this time; 0 = never [0]",
       Integer(&C::max_connection_age_s, 0, 365 * 86400)},
      {"idle-timeout",
       {},
       Kind::kValue,
       "SECONDS",
       "close a WebSocket after this time without a message or a running answer; 0 = never [0]",
       Integer(&C::idle_timeout_s, 0, 365 * 86400)},
      {"shutdown-timeout",
       {},
       Kind::kValue,
       "SECONDS",
       "time to stop in: running answers may end in two thirds of it, or all but 10 s [30]",
       Integer(&C::shutdown_timeout_s, 0, 86400)},
      {"shutdown-grace",
       {},
       Kind::kValue,
       "SECONDS",
       "before that: only /readyz answers 503, so that a proxy sends new clients elsewhere [0]",
       Integer(&C::shutdown_grace_s, 0, 3600)},
  };
}

}  // namespace ringside
