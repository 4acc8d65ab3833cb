// Options from the command line and the environment. Parsed once in main; a plain value.
#pragma once

#include <string>
#include <vector>

#include "clients/chat/chat_options.h"
#include "clients/eval/eval.h"
#include "clients/pull/pull.h"
#include "clients/wire/server_access.h"

namespace ringside::client {

struct SessionsOptions {
  enum class Verb { kList, kShow, kExport, kImport, kDelete, kVerify };
  Verb verb = Verb::kList;
  std::vector<std::string> ids;  // or numbers of the list; kVerify: none = all
  bool json = false;             // for kList, kShow and kVerify
  std::string path;              // for kExport and kImport; "-" = standard output or input; "" = named after the id
  size_t limit = 10000;
};

struct RunOptions {
  std::string model;       // model file or folder, name of a model on this machine, or one to pull
  std::string store_path;  // "" = one in the user's data folder
};

struct EnginesOptions {
  enum class Verb { kList, kDrain, kResume };
  Verb verb = Verb::kList;
  int engine = 0;  // for kDrain and kResume
  bool json = false;
};

struct DrainOptions {
  bool wait = false, resume = false;
};

struct Options {
  enum class Verb {
    kNone,
    kChat,
    kRun,
    kSessions,
    kEngines,
    kOwners,
    kBackup,
    kDrain,
    kHealth,
    kEval,
    kModels,
    kPull,
    kLoad,
    kUnload
  };
  Verb verb = Verb::kNone;
  ServerAccess server;
  ChatOptions chat;
  RunOptions run;
  SessionsOptions sessions;
  EnginesOptions engines;
  DrainOptions drain;
  EvalOptions eval;
  PullOptions pull;
  bool models_json = false, owners_json = false;
  bool served_models = false;  // kModels: those of the server
  std::string changed_model;   // of kLoad and kUnload
  std::string eval_model;      // file or folder to start a private server with; "" = use `server`
  int exit_code = 0;           // if verb is kNone: print these and exit with it
  std::string to_stdout, to_stderr;
};

/// RINGSIDE_URL and RINGSIDE_API_KEY are the defaults of --url and --api-key. Never fails: see Options::exit_code.
Options ParseOptions(int argc, const char* const* argv);

}  // namespace ringside::client
