// ringside-server: reads the configuration and runs the server.
#include <sys/stat.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>

#include "base/cli/sibling_program.h"
#include "ws/access/keys_command.h"
#include "ws/app/app.h"
#include "ws/config/inspect_command.h"
#include "ws/config/migrate_command.h"
#include "ws/request_kinds.h"

extern char** environ;

namespace ringside {
namespace {

std::map<std::string, std::string> ReadEnvironment() {
  std::map<std::string, std::string> out;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string text = *entry;
    if (const size_t equals = text.find('='); equals != std::string::npos) {
      out[text.substr(0, equals)] = text.substr(equals + 1);
    }
  }
  return out;
}

int Main(const std::vector<std::string>& args) {
  const std::string command = args.empty() ? "" : args.front();
  // Files of the server are private.
  umask(077);
  if (args == std::vector<std::string>{"--describe-requests"}) return PrintOutcome({.to_stdout = DescribeRequests()});
  if (command == "keys") return PrintOutcome(RunKeysCommand({args.begin() + 1, args.end()}, ReadEnvironment()));
  if (command == "inspect") return PrintOutcome(RunInspectCommand({args.begin() + 1, args.end()}));
  if (command == "migrate") return PrintOutcome(RunMigrateCommand({args.begin() + 1, args.end()}));
  Result<ParsedConfig> parsed = ParseConfig(args, ReadEnvironment());
  if (!parsed.ok()) {
    std::fprintf(stderr, "ringside-server: %s\n", parsed.status().message().c_str());
    return kExitBadConfig;
  }
  if (!parsed->print.empty()) {
    std::fputs(parsed->print.c_str(), stdout);
    return kExitOk;
  }
  ConfigureLog(parsed->config.log_level, parsed->config.log_format);
  if (!parsed->profile_line.empty()) LogInfo("{}", parsed->profile_line);
  SignalWatcher signals;
  const int exit_code = RunServer(parsed->config, signals);
  // After a lost rank, NCCL's threads may still use objects that an orderly exit destroys.
  if (parsed->config.cuda && exit_code == kExitDeviceFailed) std::_Exit(exit_code);
  return exit_code;
}

}  // namespace
}  // namespace ringside

int main(int argc, char** argv) {
  try {
    if (argc > 1 && std::strcmp(argv[1], "convert") == 0) return ringside::RunSibling("ringside-convert", argv + 1);
    return ringside::Main(std::vector<std::string>(argv + 1, argv + argc));
  } catch (const std::exception& error) {
    std::fprintf(stderr, "ringside-server: %s\n", error.what());
    return ringside::kExitFailed;
  }
}
