#include "session/postgres/postgres_log.h"

#include <algorithm>
#include <functional>
#include <limits>
#include <utility>

#include "session/journal/shared_log.h"
#include "session/postgres/postgres_lease.h"
#include "session/postgres/postgres_lookups.h"
#include "session/postgres/postgres_pool.h"
#include "session/postgres/postgres_rows.h"
#include "session/postgres/postgres_schema.h"
#include "session/postgres/postgres_writer.h"

namespace ringside {
namespace {

constexpr std::chrono::seconds kOpenPatience{15};
constexpr std::chrono::seconds kMigrationTimeout{60};
constexpr double kShortestLease_s = 0.5, kLongestLease_s = 3600;

class PostgresLog final : public JournalLog, public SharedLog {
 public:
  PostgresLog(std::vector<PostgresTarget::Settings> hosts, const std::stop_token& stop)
      : target_(std::move(hosts)), on_stop_(stop, [this] { stop_.Request(); }) {}
  Status Open(const SharedStoreOptions& options, const std::optional<SealKey>& master,
              const std::vector<RowChange>& initial);

  Status Commit(const std::vector<RowChange>& changes) override { return writer_->Commit(changes); }
  Status CheckPlace() const override { return lease_->fenced() ? lease_->Fence() : Status::Ok(); }
  JournalCursor Cursor() const override { return JournalCursor(std::make_unique<PostgresRows>(*pool_)); }
  int64_t FreeBytes() const override { return std::numeric_limits<int64_t>::max(); }
  Status Rewrite(const std::vector<std::pair<std::string, std::string>>& /*ranges*/) override { return Status::Ok(); }
  Status Backup(const std::string& /*folder*/) const override {
    return Unavailable("A shared store is copied by the database's own means, such as pg_dump.");
  }
  SharedLog* shared() override { return this; }

  Status Claim(const std::string& session) override { return lookups_->Claim(session); }
  Status AskFor(const std::string& session) override { return lookups_->AskFor(session); }
  const std::string& server() const override { return lease_->server(); }
  int64_t incarnation() const override { return lease_->incarnation(); }
  void OnAskedFor(std::function<void(const std::string& session)> asked) override {
    lease_->OnAskedFor(std::move(asked));
  }
  Result<std::vector<std::string>> Reserve(const std::vector<std::string>& sessions) override {
    return writer_->Reserve(sessions);
  }
  bool HoldsLease() const override { return lease_->Holds(); }
  bool Fenced() const override { return lease_->fenced(); }
  int64_t UptimeMs() const override { return lease_->UptimeMs(); }
  Result<SessionPlace> Find(const std::string& session, const std::optional<std::string>& owner) override {
    return lookups_->Find(session, owner);
  }
  Result<std::vector<std::string>> Existing(const std::string& owner,
                                            const std::vector<std::string>& sessions) override {
    return lookups_->Existing(owner, sessions);
  }
  Result<std::vector<SharedRow>> List(const std::string& owner, const std::string& after, int64_t limit) override {
    return lookups_->List(owner, after, limit);
  }
  Result<SharedTotals> Totals(const std::string& owner) override { return lookups_->Totals(owner); }
  Result<std::vector<SharedTotals>> AllTotals() override { return lookups_->AllTotals(); }
  Result<std::vector<std::string>> OldChains(const std::string& owner, int64_t keep, int64_t limit) override {
    return lookups_->OldChains(owner, keep, limit);
  }
  Result<std::vector<std::string>> UnusedSince(double used_s, int64_t limit) override {
    return lookups_->UnusedSince(used_s, limit);
  }

 private:
  const PostgresTarget target_;
  StopSignal stop_;
  const std::stop_callback<std::function<void()>> on_stop_;
  std::unique_ptr<PostgresPool> pool_;
  std::unique_ptr<PostgresLease> lease_;
  std::optional<PostgresWriter> writer_;
  std::optional<PostgresLookups> lookups_;
};

Status PostgresLog::Open(const SharedStoreOptions& options, const std::optional<SealKey>& master,
                         const std::vector<RowChange>& initial) {
  {
    const auto deadline = std::chrono::steady_clock::now() + kOpenPatience;
    ASSIGN_OR_RETURN(const auto connection, PostgresConnection::Open(target_, stop_, kMigrationTimeout, deadline));
    RETURN_IF_ERROR(MigratePostgres(*connection, initial));
  }
  ASSIGN_OR_RETURN(lease_, PostgresLease::Register(target_, stop_,
                                                   {.server = options.server,
                                                    .lease_s = options.lease_s,
                                                    .predecessor = options.predecessor,
                                                    .clock = options.clock}));
  pool_ = std::make_unique<PostgresPool>(target_, stop_, options.connections);
  writer_.emplace(target_, stop_, *lease_, master);
  lookups_.emplace(*pool_, *lease_, master);
  return Status::Ok();
}

bool IsServerName(std::string_view name) {
  constexpr std::string_view kOthers = "._-";
  return !name.empty() && name.size() <= 64 && std::ranges::all_of(name, [&](char c) {
    return (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') ||
           kOthers.find(c) != kOthers.npos;
  });
}

}  // namespace

Result<std::unique_ptr<JournalLog>> OpenPostgresLog(const SharedStoreOptions& options,
                                                    const std::optional<SealKey>& master,
                                                    const std::vector<RowChange>& initial) {
  if (!IsServerName(options.server))
    return InvalidArgument(
        "the server's name in the store must have 1 to 64 letters, digits, dots, hyphens or underscores");
  if (!(options.lease_s >= kShortestLease_s && options.lease_s <= kLongestLease_s))
    return InvalidArgument("the lease must be 0.5 to 3600 seconds");
  ASSIGN_OR_RETURN(auto hosts, PostgresTarget::Parse(options.url, "ringside " + options.server));
  auto log = std::make_unique<PostgresLog>(std::move(hosts), options.stop);
  RETURN_IF_ERROR(log->Open(options, master, initial));
  return std::unique_ptr<JournalLog>(std::move(log));
}

}  // namespace ringside
