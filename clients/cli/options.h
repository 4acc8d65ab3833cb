// What the user asked for on the command line and by environment. Parsed once in main; a plain value.
#pragma once

#include <string>
#include <vector>

#include "clients/bench/bench.h"
#include "clients/chat/chat_options.h"
#include "clients/eval/eval.h"
#include "clients/wire/server_access.h"

namespace ringside::client {

struct SessionsOptions {
  enum class Verb { kList, kShow, kExport, kImport, kDelete, kVerify };
  Verb verb = Verb::kList;
  std::vector<std::string> ids;  // or numbers of the list; of kVerify: none = all
  bool json = false;             // of kList and kShow
  std::string path;              // of kExport and kImport; "-" = standard output, standard input; "" = the id's
  size_t limit = 10000;
};

struct RunOptions {
  std::string model;       // its files, in any format that we load
  std::string store_path;  // "" = one in the user's data folder
};

struct EnginesOptions {
  enum class Verb { kList, kDrain, kResume };
  Verb verb = Verb::kList;
  int engine = 0;  // of kDrain and kResume
  bool json = false;
};

struct Options {
  enum class Verb { kNone, kChat, kRun, kSessions, kEngines, kBackup, kHealth, kBenchAppend, kBenchLoad, kEval };
  Verb verb = Verb::kNone;
  ServerAccess server;
  ChatOptions chat;
  RunOptions run;
  SessionsOptions sessions;
  EnginesOptions engines;
  AppendBenchOptions append;
  LoadBenchOptions load;
  EvalOptions eval;
  std::string eval_model;  // file or folder for a server of its own; "" = the one at `server`
  int exit_code = 0;       // where verb is kNone: print these and end with it
  std::string to_stdout, to_stderr;
};

/// RINGSIDE_URL and RINGSIDE_API_KEY stand in for --url and --api-key. Never fails: see Options::exit_code.
Options ParseOptions(int argc, const char* const* argv);

}  // namespace ringside::client
