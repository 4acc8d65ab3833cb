#include "clients/program/server_options.h"

#include <CLI/CLI.hpp>
#include <cstdlib>
#include <string>

namespace ringside::client {
namespace {

constexpr const char* kDefaultUrl = "ws://127.0.0.1:8080";

// Not through CLI11's envname: it would let the environment of one subcommand override another's command line.
std::string Default(const std::string& given, const char* variable) {
  const char* value = given.empty() ? std::getenv(variable) : nullptr;
  return value != nullptr ? value : given;
}

}  // namespace

void AddServerOptions(CLI::App& app, ServerAccess& server) {
  app.add_option("--url", server.url_text, std::string("The server, such as ") + kDefaultUrl + " (or RINGSIDE_URL)");
  app.add_option("--api-key", server.api_key, "The server's key (or RINGSIDE_API_KEY)");
  app.add_option("--cacert", server.ca_file, "Trust certificates of the authorities in this file (or RINGSIDE_CACERT)")
      ->type_name("PATH");
  app.add_flag("--insecure", server.insecure, "Accept any certificate (insecure: traffic can be intercepted)");
}

Outcome<Done> SettleServer(ServerAccess& server) {
  server.url_text = Default(server.url_text, "RINGSIDE_URL");
  server.api_key = Default(server.api_key, "RINGSIDE_API_KEY");
  const Outcome<ServerUrl> url = ParseServerUrl(server.url_text.empty() ? kDefaultUrl : server.url_text);
  if (!url) return url.failure();
  server.url = *url;
  server.url.ca_file = Default(server.ca_file, "RINGSIDE_CACERT");
  server.url.insecure = server.insecure;
  if (server.api_key.find_first_of("\r\n") != std::string::npos) return Failure{"The key must be one line."};
  return Done{};
}

}  // namespace ringside::client
