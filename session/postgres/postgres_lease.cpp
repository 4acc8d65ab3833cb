#include "session/postgres/postgres_lease.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/defect.h"
#include "base/log.h"

namespace ringside {
namespace {

using std::chrono::milliseconds;
using enum PostgresType;

constexpr milliseconds kRegisterPatience{15'000}, kEndPatience{3'000}, kLeasePause{200};
constexpr int64_t kMissedBeats = 3;  // after that, all servers were without the database

// Numbers of one sequence: no incarnation is used twice, and each is greater than those before it.
constexpr std::string_view kRegister = R"(
insert into server (id, incarnation, batch, alive_until, ended)
values ($1, nextval('incarnation'), 0, now() + $2 * interval '1 second', false)
on conflict (id) do update set incarnation = nextval('incarnation'), batch = 0, alive_until = excluded.alive_until,
                               ended = false
where server.ended or server.alive_until <= now() or server.incarnation = $3
returning incarnation)";
constexpr std::string_view kRest = R"(
select greatest(0, extract(epoch from alive_until - now()))::float8 from server where id = $1)";
constexpr std::string_view kUnregister = R"(
update server set incarnation = nextval('incarnation'), alive_until = now(), ended = true
where id = $1 and incarnation = $2)";
// Names that an ended incarnation reserved for sessions and did not use.
constexpr std::string_view kDropReserved = R"(
delete from session s using server o
where s.head is null and s.server = o.id and o.incarnation > s.incarnation and o.id = any($1::text[]))";

// The uptime advances by the time since the last note of any server, but by no more than a few missed notes: neither a
// jump of the clock nor a time without servers counts. After such a gap all leases may have ended without a fault of
// their servers; so none is taken over for the time of a lease.
constexpr std::string_view kRenew = R"(
with me as (update server set alive_until = now() + $3 * interval '1 second' where id = $1 and incarnation = $2
            returning 1),
noted as (update cell
          set uptime_ms = uptime_ms + greatest(0, least($4, (extract(epoch from clock_timestamp() - noted_at) * 1000)::int8)),
              grace_until = case when abs(extract(epoch from clock_timestamp() - noted_at) * 1000) > $4
                                 then clock_timestamp() + $3 * interval '1 second' else grace_until end,
              noted_at = clock_timestamp()
          from me returning uptime_ms)
select (select count(*) from me), (select uptime_ms from noted))";
// A row that a commit has locked is left for the next time.
constexpr std::string_view kSweep = R"(
update server set incarnation = nextval('incarnation'), ended = true
where id in (select o.id from server o
             where not o.ended and o.id <> $1 and o.alive_until < now() and now() > (select c.grace_until from cell c)
             order by o.id for update skip locked)
returning id)";

}  // namespace

PostgresLease::PostgresLease(const PostgresTarget& target, const Options& options)
    : target_(target),
      options_(options),
      beat_(std::max<int64_t>(1, std::llround(options.lease_s * 1000 / 5))),
      patience_(std::max(2 * beat_, milliseconds(1'000))) {}

Result<std::unique_ptr<PostgresLease>> PostgresLease::Register(const PostgresTarget& target, const StopSignal& stop,
                                                               const Options& options) {
  std::unique_ptr<PostgresLease> lease(new PostgresLease(target, options));
  const auto open = [&] {
    return PostgresConnection::Open(target, stop, kRegisterPatience,
                                    std::chrono::steady_clock::now() + kRegisterPatience);
  };
  ASSIGN_OR_RETURN(auto connection, open());
  RETURN_IF_ERROR(lease->TryRegister(*connection));
  if (lease->incarnation_ == 0) {
    PostgresStatement rest = {.sql = kRest, .columns = {kFloat8}};
    rest.params.Text(options.server);
    ASSIGN_OR_RETURN(const PostgresReply left, connection->Run(rest, lease->Deadline()));
    const double left_s = left.rows() == 1 ? std::min(left.Float8(0, 0), 3600.0) : 0;
    LogInfo("the lease of {} ends in {:.1f} s: waiting for that", options.server, left_s);
    if (!stop.Sleep(milliseconds(std::llround(left_s * 1000) + 50))) return Unavailable("the server is stopping");
    ASSIGN_OR_RETURN(connection, open());
    RETURN_IF_ERROR(lease->TryRegister(*connection));
  }
  if (lease->incarnation_ == 0) {
    return Status(StatusCode::kBusy,
                  fmt::format("journal: another process uses this store as server {}: every server needs a name of its "
                              "own",
                              options.server));
  }
  PostgresStatement drop = {.sql = kDropReserved};
  drop.params.Texts(std::vector{options.server});
  RETURN_IF_ERROR(connection->Run(drop, lease->Deadline()).status());
  lease->thread_ = std::thread([raw = lease.get()] { raw->Run(); });
  return lease;
}

Status PostgresLease::TryRegister(PostgresConnection& connection) {
  PostgresStatement statement = {.sql = kRegister, .columns = {kInt8}};
  statement.params.Text(options_.server).Float8(options_.lease_s).Int8(options_.predecessor.value_or(0));
  ASSIGN_OR_RETURN(const PostgresReply reply, connection.Run(statement, Deadline()));
  if (reply.rows() != 1) return Status::Ok();
  incarnation_ = reply.Int8(0, 0);
  return Beat(connection);  // before a claim: the leases of the others may have ended while the database was away
}

PostgresLease::~PostgresLease() {
  ending_.Request();
  if (thread_.joinable()) thread_.join();
  if (incarnation_ == 0 || fenced_) return;
  const StopSignal never;
  const auto deadline = std::chrono::steady_clock::now() + kEndPatience;
  auto connection = PostgresConnection::Open(target_, never, kEndPatience, deadline);
  PostgresStatement end = {.sql = kUnregister}, drop = {.sql = kDropReserved};
  end.params.Text(server()).Int8(incarnation_);
  drop.params.Texts(std::vector{server()});
  const Status ended = connection.ok() ? (*connection)->RunAll({end, drop}, deadline).status() : connection.status();
  if (!ended.ok()) LogWarning("the lease of {} is not returned: {}", server(), ended.message());
}

Status PostgresLease::Fence() {
  if (RINGSIDE_DEFECT("fence_skipped")) return Status::Ok();
  if (!fenced_.exchange(true)) LogError("journal: another server has taken over the sessions of {}", server());
  return IoError("journal: another server has taken over the sessions of " + server());
}

int64_t PostgresLease::UptimeMs() const {
  std::lock_guard lock(mutex_);
  const int64_t since_ms = (options_.clock->MonotonicNs() - noted_ns_) / 1'000'000;
  uptime_ms_ = std::max(uptime_ms_, noted_uptime_ms_ + std::clamp<int64_t>(since_ms, 0, kMissedBeats * beat_.count()));
  return uptime_ms_;
}

void PostgresLease::OnAskedFor(std::function<void(const std::string& session)> asked) {
  std::lock_guard lock(asked_mutex_);
  asked_ = std::move(asked);
}

PostgresStatement PostgresLease::TakeOver(const std::string& server, int64_t incarnation) const {
  constexpr std::string_view kTakeOver = R"(
update server o set incarnation = nextval('incarnation'), ended = true
where o.id = $1 and o.incarnation = $2 and o.alive_until < now() and now() > (select c.grace_until from cell c))";
  constexpr std::string_view kByOwnClock = R"(
update server o set incarnation = nextval('incarnation'), ended = true
where o.id = $1 and o.incarnation = $2 and o.alive_until < to_timestamp($3))";
  const bool own_clock = RINGSIDE_DEFECT("lease_by_own_clock");
  PostgresStatement statement = {.sql = own_clock ? kByOwnClock : kTakeOver};
  statement.params.Text(server).Int8(incarnation);
  if (own_clock) statement.params.Float8(options_.clock->WallSeconds());
  return statement;
}

void PostgresLease::Run() {
  bool failing = false;
  for (PostgresDeadline next = std::chrono::steady_clock::now() + beat_; !ending_.requested() && !fenced_;) {
    Status status = connection_ == nullptr || !connection_->usable() ? Connect() : Status::Ok();
    if (status.ok() && std::chrono::steady_clock::now() >= next) {
      next = std::chrono::steady_clock::now() + beat_;
      status = Beat(*connection_);
      if (status.ok() && !fenced_) status = Sweep();
    }
    if (ending_.requested()) return;
    if (!status.ok()) {
      if (!std::exchange(failing, true)) LogError("the lease of {} is not renewed: {}", server(), status.message());
      next = std::chrono::steady_clock::now();
      ending_.Sleep(std::min(kLeasePause, beat_));
      continue;
    }
    if (std::exchange(failing, false)) LogInfo("the lease of {} is renewed again", server());
    connection_->WaitForNotifications(next);
    Deliver();
  }
}

Status PostgresLease::Connect() {
  ASSIGN_OR_RETURN(connection_, PostgresConnection::Open(target_, ending_, patience_, Deadline()));
  const std::string listen = fmt::format("listen ringside_{}", incarnation_);
  return connection_->Run({.sql = listen, .prepared = false}, Deadline()).status();
}

Status PostgresLease::Beat(PostgresConnection& connection) {
  const int64_t sent_ns = options_.clock->MonotonicNs();
  PostgresStatement renew = {.sql = kRenew, .columns = {kInt8, kInt8}};
  renew.params.Text(server()).Int8(incarnation_).Float8(options_.lease_s).Int8(kMissedBeats * beat_.count());
  ASSIGN_OR_RETURN(const PostgresReply reply, connection.Run(renew, Deadline()));
  if (reply.rows() != 1 || connection.unreplicated()) return Unavailable("the database could not replicate it");
  if (reply.Int8(0, 0) != 1) RETURN_IF_ERROR(Fence());
  ends_ns_ = sent_ns + std::llround(options_.lease_s * 0.99e9);  // clocks' rates differ by less than 1 %
  std::lock_guard lock(mutex_);
  noted_uptime_ms_ = reply.Int8(0, 1);
  noted_ns_ = options_.clock->MonotonicNs();
  return Status::Ok();
}

Status PostgresLease::Sweep() {
  PostgresStatement sweep = {.sql = kSweep, .columns = {kText}};
  sweep.params.Text(server());
  ASSIGN_OR_RETURN(const PostgresReply swept, connection_->Run(sweep, Deadline()));
  const std::vector<std::string> servers = swept.Texts(0);
  if (servers.empty()) return Status::Ok();
  LogWarning("server {} has vanished: its sessions are free", fmt::join(servers, ", "));
  PostgresStatement drop = {.sql = kDropReserved};
  drop.params.Texts(servers);
  return connection_->Run(drop, Deadline()).status();
}

void PostgresLease::Deliver() {
  const std::vector<std::string> sessions = connection_->TakeNotifications();
  std::lock_guard lock(asked_mutex_);
  for (const std::string& session : sessions) {
    if (asked_) asked_(session);
  }
}

}  // namespace ringside
