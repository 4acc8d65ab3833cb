#include "clients/cli/engines.h"

#include <cstdint>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <string>

#include "base/json/json_tree.h"
#include "clients/terminal/sanitiser.h"
#include "clients/wire/transport/http_client.h"

namespace ringside::client {
namespace {

int Fail(const std::string& sentence) {
  std::fprintf(stderr, "ringside: %s\n", Sanitise(sentence).c_str());
  return 1;
}

std::string Line(const std::string& engine, const std::string& state, const std::string& slots,
                 const std::string& memory, const std::string& running, const std::string& waiting) {
  char line[256];
  std::snprintf(line, sizeof line, "%6s  %-8.40s  %11s  %20s  %7s  %7s\n", engine.c_str(), state.c_str(), slots.c_str(),
                memory.c_str(), running.c_str(), waiting.c_str());
  return line;
}

/// "1.50 of 40.00 GiB".
std::string Memory(int64_t used, int64_t all) {
  constexpr double kGib = 1 << 30;
  char text[64];
  std::snprintf(text, sizeof text, "%.2f of %.2f GiB", static_cast<double>(used) / kGib,
                static_cast<double>(all) / kGib);
  return text;
}

/// Throws if a member is missing or has the wrong type.
std::string Table(const nlohmann::json& engines) {
  std::string table = Line("engine", "state", "slots", "memory", "running", "waiting");
  for (const nlohmann::json& engine : engines) {
    const auto number = [&](const char* name) { return engine.at(name).get<int64_t>(); };
    const auto text = [&](const char* name) { return std::to_string(number(name)); };
    table += Line(text("id"), engine.at("state").get<std::string>(), text("slots_used") + " of " + text("slots"),
                  Memory(number("kv_bytes_used"), number("kv_bytes")), text("turns_running"), text("turns_waiting"));
  }
  return table;
}

}  // namespace

int LookAfterEngines(const ServerAccess& server, const EnginesOptions& options) {
  using Verb = EnginesOptions::Verb;
  const HttpClient http(server.url, server.api_key);
  const std::string one = "/engines/" + std::to_string(options.engine);
  const Outcome<HttpAnswer> answer =
      options.verb == Verb::kList
          ? http.Request("GET", "/engines")
          : http.Request("POST", one + (options.verb == Verb::kDrain ? "/drain" : "/resume"), "{}");
  if (!answer) return Fail(answer.failure().message);
  const nlohmann::json told = ParseJsonTree(answer->body, kLargeJson);
  const char* unreadable = "The server's answer is not a list of engines.";
  if (told.is_discarded()) return Fail(unreadable);
  try {
    const nlohmann::json engines = options.verb == Verb::kList ? told.at("data") : nlohmann::json::array({told});
    std::fputs(Sanitise(options.json ? engines.dump(1) + "\n" : Table(engines)).c_str(), stdout);
    return 0;
  } catch (const nlohmann::json::exception&) {
    return Fail(unreadable);
  }
}

}  // namespace ringside::client
