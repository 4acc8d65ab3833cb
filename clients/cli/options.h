// What the user asked for on the command line and by environment. Parsed once in main; a plain value.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "clients/cli/screen.h"
#include "clients/cli/settings.h"
#include "clients/wire/server_url.h"

namespace ringside::client {

struct ChatOptions {
  std::string session;  // go on with this conversation; "" = a new one
  bool continue_last = false;
  std::optional<std::string> system;
  Settings settings;
  bool stats = false;
  bool history = true;
  std::string command;  // how the user started this, from RINGSIDE_CHAT_COMMAND; "" = as ringside chat
  std::string prompt;   // the words behind the options, joined by blanks
};

struct SessionsOptions {
  enum class Verb { kList, kShow, kExport, kImport, kDelete, kVerify };
  Verb verb = Verb::kList;
  std::vector<std::string> ids;  // of kVerify: none = all
  std::string path;              // of kExport and kImport; "-" = standard output, standard input; "" = the id's
  size_t limit = 10000;
};

struct AppendBenchOptions {
  int rounds = 9;
  int history_tokens = 1000, turn_tokens = 32;
  std::string json_path;  // "" = none
};

struct LoadBenchOptions {
  int conversations = 8, turns = 4;
  double think_s = 1.0;  // mean, exponentially distributed
  int prompt_words = 30, max_tokens = 64;
  unsigned seed = 1;
  std::string json_path;
};

struct Options {
  enum class Verb { kNone, kChat, kSessions, kBenchAppend, kBenchLoad };
  Verb verb = Verb::kNone;
  ServerUrl url;
  std::string url_text;  // as given; "" = the default
  std::string api_key;
  ColourMode colour = ColourMode::kAuto;
  ChatOptions chat;
  SessionsOptions sessions;
  AppendBenchOptions append;
  LoadBenchOptions load;
  int exit_code = 0;  // where verb is kNone: print these and end with it
  std::string to_stdout, to_stderr;
};

/// RINGSIDE_URL and RINGSIDE_API_KEY stand in for --url and --api-key. Never fails: see Options::exit_code.
Options ParseOptions(int argc, const char* const* argv);

}  // namespace ringside::client
