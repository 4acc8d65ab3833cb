// The terminal client `ringside`.
#include <cstdio>
#include <exception>
#include <string>

#include "clients/bench/bench.h"
#include "clients/chat/one_shot.h"
#include "clients/cli/options.h"
#include "clients/chat/repl.h"
#include "clients/cli/sessions.h"
#include "clients/terminal/terminal.h"

namespace ringside::client {
namespace {

int Chat(const Options& options) {
  if (!options.chat.prompt.empty() || !Terminal::IsInteractive()) return AnswerOnce(options.server, options.chat);
  Terminal terminal;
  return Repl(options.server, options.chat, terminal).Run();
}

int Main(int argc, const char* const* argv) {
  const Options options = ParseOptions(argc, argv);
  switch (options.verb) {
    case Options::Verb::kNone:
      std::fputs(options.to_stdout.c_str(), stdout);
      std::fputs(options.to_stderr.c_str(), stderr);
      return options.exit_code;
    case Options::Verb::kChat:
      return Chat(options);
    case Options::Verb::kSessions:
      return LookAfterSessions(options);
    case Options::Verb::kBenchAppend:
      return BenchAppend(options.server, options.append);
    case Options::Verb::kBenchLoad:
      return BenchLoad(options.server, options.load);
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
