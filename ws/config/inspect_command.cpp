#include "ws/config/inspect_command.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <nlohmann/json.hpp>

#include "engine/engine.h"
#include "engine/model/model_facts.h"
#include "kernels/backend.h"
#include "ws/config/config.h"
#include "ws/config/machine.h"

namespace ringside {
namespace {

constexpr const char* kInspectSummary = "Whether models load, and the memory they need, from their files' headers";
constexpr const char* kInspectFooter =
    "Prints one line of JSON per model: \"loads\" and, if false, the \"reason\"; else sizes in bytes, and the cache of "
    "one conversation of \"cache_tokens\" tokens.";
constexpr int64_t kCacheTokens = 8192;  // a long chat

void AddPaths(CLI::App& app, std::vector<std::string>& paths) {
  app.footer(kInspectFooter);
  app.add_option("path", paths, "Model files or folders, as for --model")->type_name("PATH")->required();
}

/// Adds the cache of one conversation, whose window is bounded by the model's context.
Status AddCache(const ModelSpec& spec, nlohmann::json& line) {
  ASSIGN_OR_RETURN(EngineOptions options, ResolveEngineOptions({}, spec));
  options.memory_len = std::min(options.memory_len, kCacheTokens);
  line["cache_tokens"] = options.memory_len;
  line["cache_bytes"] = Engine::SlotBytes(ShapeOf(spec), options);
  return Status::Ok();
}

Status Inspect(const std::string& path, const Backend& backend, nlohmann::json& line) {
  ASSIGN_OR_RETURN(const ModelFacts facts, ReadModelFacts(path, backend));
  line["name"] = facts.spec.name;
  line["architecture"] = facts.spec.architecture;
  line["context"] = facts.spec.context();
  line["weight_bytes"] = facts.weight_bytes;
  line["token_bytes"] = facts.token_bytes;
  line["machine_bytes"] = MachineMemoryBytes();
  return AddCache(facts.spec, line);
}

}  // namespace

CommandOutcome RunInspectCommand(const std::vector<std::string>& args) {
  CLI::App app(kInspectSummary, "ringside-server inspect");
  std::vector<std::string> paths;
  AddPaths(app, paths);
  if (auto outcome = ParseCommand(app, args)) return *outcome;
  const auto backend = MakeCpuBackend({.threads = 1});
  if (!backend.ok()) return {kCommandFailed, "", "ringside-server inspect: " + backend.status().message() + "\n"};
  CommandOutcome outcome;
  for (const std::string& path : paths) {
    nlohmann::json line = {{"path", path}};
    const Status status = Inspect(path, **backend, line);
    if (!status.ok()) line = {{"path", path}, {"reason", status.message()}};
    line["loads"] = status.ok();
    outcome.to_stdout += line.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
  }
  return outcome;
}

std::string DescribeInspectCommand() {
  CLI::App app(kInspectSummary, "inspect");
  std::vector<std::string> paths;
  AddPaths(app, paths);
  return DescribeCommand(app);
}

}  // namespace ringside
