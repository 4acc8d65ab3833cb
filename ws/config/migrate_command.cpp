#include "ws/config/migrate_command.h"

#include <fmt/format.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <optional>

#include "session/journal/journal.h"
#include "session/postgres/postgres_log.h"
#include "session/table/copy_sessions.h"
#include "ws/config/config_key.h"
#include "ws/config/machine.h"

namespace ringside {
namespace {

constexpr const char* kMigrateSummary = "Copy conversations, with their ids, between a folder and a shared database";
constexpr const char* kMigrateFooter =
    "FROM and TO are each the --store-path or the --store-url of a server. No server may use a folder meanwhile; a "
    "database may be in use, but not its conversations that are copied from it. What TO has already is left as it is, "
    "so the command can be repeated. Nothing is deleted. Caches are recomputed.";
constexpr int64_t kReportEvery = 1'000;

struct Arguments {
  std::string from, to, from_key, to_key;
};

void AddArguments(CLI::App& app, Arguments& out) {
  app.footer(kMigrateFooter);
  app.add_option("from", out.from, "Folder or postgresql:// URL to read")->type_name("FROM")->required();
  app.add_option("to", out.to, "Folder or postgresql:// URL to write, made if it is missing")
      ->type_name("TO")
      ->required();
  app.add_option("--encryption-key-file", out.from_key, "Key of FROM")->type_name("PATH");
  app.add_option("--to-encryption-key-file", out.to_key, "Key of TO")->type_name("PATH");
}

Result<std::unique_ptr<Journal>> OpenStore(const std::string& place, const std::string& key_file) {
  JournalOptions options;
  if (!key_file.empty()) {
    ASSIGN_OR_RETURN(const std::string key, ReadKey(key_file));
    options.master_key = SealKey(key);
  }
  if (place.starts_with("postgresql://") || place.starts_with("postgres://")) {
    options.open_log = [&, name = fmt::format("migrate-{}", getpid())](const std::vector<RowChange>& initial,
                                                                       std::optional<int64_t>) {
      return OpenPostgresLog({.url = place, .server = name}, options.master_key, initial);
    };
  } else {
    RETURN_IF_ERROR(PrepareStoreFolder(place));
    options.path = place;
  }
  return Journal::Open(options);
}

Result<CopiedSessions> Copy(const Arguments& arguments) {
  ASSIGN_OR_RETURN(const auto from, OpenStore(arguments.from, arguments.from_key));
  ASSIGN_OR_RETURN(const auto to, OpenStore(arguments.to, arguments.to_key));
  return CopySessions(*from, *to, [](const CopiedSessions& count) {
    const int64_t all = count.copied + count.present + count.failed;
    if (all % kReportEvery == 0) std::fprintf(stderr, "%lld sessions read\n", static_cast<long long>(all));
  });
}

}  // namespace

CommandOutcome RunMigrateCommand(const std::vector<std::string>& args) {
  CLI::App app(kMigrateSummary, "ringside-server migrate");
  Arguments arguments;
  AddArguments(app, arguments);
  if (auto outcome = ParseCommand(app, args)) return *outcome;
  const Result<CopiedSessions> count = Copy(arguments);
  if (!count.ok()) return {kCommandFailed, "", "ringside-server migrate: " + count.status().message() + "\n"};
  CommandOutcome outcome;
  outcome.to_stdout = fmt::format("{} conversations and chains copied, {} were there already, {} not copied\n",
                                  count->copied, count->present, count->failed);
  if (count->failed > 0) outcome.exit_code = kCommandFailed;
  return outcome;
}

std::string DescribeMigrateCommand() {
  CLI::App app(kMigrateSummary, "migrate");
  Arguments arguments;
  AddArguments(app, arguments);
  return DescribeCommand(app);
}

}  // namespace ringside
