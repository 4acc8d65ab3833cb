// The terminal client `ringside`.
#include <cstdio>
#include <exception>
#include <memory>
#include <string>
#include <string_view>

#include "base/cli/sibling_program.h"
#include "clients/chat/one_shot.h"
#include "clients/chat/repl/repl.h"
#include "clients/cli/backup.h"
#include "clients/cli/drain.h"
#include "clients/cli/engines.h"
#include "clients/cli/health.h"
#include "clients/cli/options.h"
#include "clients/cli/own_server.h"
#include "clients/cli/owners.h"
#include "clients/cli/served_models.h"
#include "clients/cli/sessions.h"
#include "clients/eval/eval.h"
#include "clients/models/model_list.h"
#include "clients/pull/find_model.h"
#include "clients/pull/pull.h"
#include "clients/terminal/sanitiser.h"
#include "clients/terminal/terminal.h"

namespace ringside::client {
namespace {

bool OpensRepl(const ChatOptions& options) { return options.prompt.empty() && Terminal::IsInteractive(); }

int Chat(const ServerAccess& server, const ChatOptions& options) {
  if (!OpensRepl(options)) return AnswerOnce(server, options);
  Terminal terminal;
  return Repl(server, options, terminal).Run();
}

/// Starts a server with the model that a person names; null, with the reason on standard error, if that fails.
std::unique_ptr<OwnServer> StartServer(const std::string& name, const OwnServer::Purpose& purpose) {
  const auto refuse = [](const Failure& failure) {
    std::fprintf(stderr, "ringside: %s\n", Sanitise(failure.message).c_str());
    return nullptr;
  };
  const Outcome<std::string> model = FindModel(name);
  if (!model) return refuse(model.failure());
  Outcome<std::unique_ptr<OwnServer>> server = OwnServer::Start(*model, purpose);
  if (!server) return refuse(server.failure());
  return std::move(*server);
}

int Run(const Options& options) {
  const std::string& store = options.run.store_path;
  const std::unique_ptr<OwnServer> server =
      StartServer(options.run.model, {.store_path = store.empty() ? DataFolder() : store, .log = "run.log"});
  if (server == nullptr) return 1;
  ChatOptions chat = options.chat;
  if (chat.command.empty()) chat.command = "ringside run " + options.run.model;
  if (OpensRepl(chat)) std::printf("The page: http://%s/\n", server->url().Authority().c_str());
  return Chat({.url = server->url(), .api_key = options.server.api_key}, chat);
}

int Eval(const Options& options) {
  if (options.eval_model.empty()) return Evaluate(options.server, options.eval);
  const std::unique_ptr<OwnServer> server = StartServer(options.eval_model, {.log = "eval.log"});
  if (server == nullptr) return 1;
  return Evaluate({.url = server->url(), .api_key = options.server.api_key}, options.eval);
}

int Health(const ServerUrl& url) {
  const Outcome<Done> ready = AskWhetherReady(url);
  if (!ready) std::fprintf(stderr, "ringside: %s\n", ready.failure().message.c_str());
  if (ready) std::printf("%s is ready.\n", url.Authority().c_str());
  return ready ? 0 : 1;
}

int Main(int argc, char** argv) {
  const std::string_view command = argc > 1 ? argv[1] : "";
  if (command == "keys") return RunSibling("ringside-server", argv);
  if (command == "bench") return RunSibling("ringside-bench", argv + 1);
  if (command == "convert") return RunSibling("ringside-convert", argv + 1);
  const Options options = ParseOptions(argc, argv);
  switch (options.verb) {
    case Options::Verb::kNone:
      std::fputs(options.to_stdout.c_str(), stdout);
      std::fputs(options.to_stderr.c_str(), stderr);
      return options.exit_code;
    case Options::Verb::kChat:
      return Chat(options.server, options.chat);
    case Options::Verb::kRun:
      return Run(options);
    case Options::Verb::kSessions:
      return LookAfterSessions(options);
    case Options::Verb::kEngines:
      return LookAfterEngines(options.server, options.engines);
    case Options::Verb::kOwners:
      return ShowOwners(options.server, options.owners_json);
    case Options::Verb::kBackup:
      return MakeBackup(options.server);
    case Options::Verb::kDrain:
      return DrainServer(options.server, options.drain);
    case Options::Verb::kHealth:
      return Health(options.server.url);
    case Options::Verb::kEval:
      return Eval(options);
    case Options::Verb::kModels:
      return options.served_models ? ListServedModels(options.server, options.models_json)
                                   : ListModels(options.models_json);
    case Options::Verb::kLoad:
    case Options::Verb::kUnload:
      return ChangeServedModel(options.server, options.changed_model, options.verb == Options::Verb::kLoad);
    case Options::Verb::kPull:
      return PullModel(options.pull);
  }
  return 2;
}

}  // namespace
}  // namespace ringside::client

int main(int argc, char** argv) {
  try {
    return ringside::client::Main(argc, argv);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "ringside: %s\n", error.what());
    return 1;
  }
}
