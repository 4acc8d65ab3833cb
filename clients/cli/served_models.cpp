#include "clients/cli/served_models.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "base/json/json_tree.h"
#include "clients/models/model_list.h"
#include "clients/terminal/sanitiser.h"
#include "clients/wire/json_fields.h"
#include "clients/wire/transport/http_client.h"

namespace ringside::client {
namespace {

// A load waits for the turns of other models, and for a large file.
constexpr std::chrono::minutes kLoadPatience{60};

int PrintFailure(const Failure& failure) {
  std::fprintf(stderr, "ringside: %s\n", Sanitise(failure.message).c_str());
  return 1;
}

std::string Line(int columns, const std::string& name, const std::string& state, const std::string& file,
                 const std::string& memory, const std::string& running, const std::string& waiting) {
  char line[512];
  std::snprintf(line, sizeof line, "%-*.100s  %-11.40s  %7s  %7s  %7s  %7s\n", columns, name.c_str(), state.c_str(),
                file.c_str(), memory.c_str(), running.c_str(), waiting.c_str());
  return line;
}

std::string Bytes(int64_t bytes) { return bytes > 0 ? DescribeBytes(static_cast<uint64_t>(bytes)) : "-"; }

}  // namespace

std::string ServedModelTable(const std::vector<ServedModel>& models) {
  constexpr size_t kLeastColumns = 4, kMostColumns = 100;
  size_t columns = kLeastColumns;
  for (const ServedModel& model : models) columns = std::max(columns, std::min(model.name.size(), kMostColumns));
  const int width = static_cast<int>(columns);
  std::string table = Line(width, "name", "state", "file", "memory", "running", "waiting"), reasons;
  for (const ServedModel& model : models) {
    if (!model.parent.empty()) continue;  // an adapter or another name
    // A server with one model has no states.
    table += Line(width, model.name, model.state.empty() ? "loaded" : model.state, Bytes(model.file_bytes),
                  Bytes(model.memory_bytes), std::to_string(model.running), std::to_string(model.waiting));
    if (!model.reason.empty()) reasons += model.name + ": " + model.reason + "\n";
  }
  return reasons.empty() ? table : table + "\n" + reasons;
}

int ListServedModels(const ServerAccess& server, bool json) {
  const HttpClient http(server.url, server.api_key);
  const Outcome<HttpAnswer> answer = http.Request("GET", "/models");
  if (!answer) return PrintFailure(answer.failure());
  std::fputs(Sanitise(json ? answer->body + "\n" : ServedModelTable(ParseModels(answer->body))).c_str(), stdout);
  return 0;
}

int ChangeServedModel(const ServerAccess& server, const std::string& model, bool load) {
  ServerUrl root = server.url;
  root.base_path = "";
  const HttpClient http(root, server.api_key, kLoadPatience);
  const Outcome<HttpAnswer> answer =
      http.Request("POST", load ? "/models/load" : "/models/unload", Dump({{"model", model}}));
  if (!answer) return PrintFailure(answer.failure());
  const std::string name = Text(ParseJsonTree(answer->body), "model");
  if (name.empty()) return PrintFailure(Failure{"The server's answer does not name a model."});
  std::printf("%s is %s.\n", Sanitise(name).c_str(), load ? "loaded" : "unloaded");
  return 0;
}

}  // namespace ringside::client
