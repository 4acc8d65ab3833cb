#include "session/postgres/postgres_writer.h"

#include <algorithm>
#include <iterator>
#include <unordered_set>

#include "base/defect.h"
#include "base/log.h"
#include "session/postgres/postgres_names.h"

namespace ringside {
namespace {

using std::chrono::milliseconds;
using enum PostgresType;

constexpr milliseconds kWritePatience{10'000}, kWritePause{200};
constexpr milliseconds kWriteTimeout{60'000};           // of a statement that this connection no longer waits for
constexpr size_t kSlowestBytesPerMs = size_t{1} << 10;  // of a link that works

// Writes the row, so that its commit waits for the standby as the batch's did.
constexpr std::string_view kResolve = R"(
update server set batch = batch where id = $1 and incarnation = $2 returning batch)";
// The order in which rows are locked is that of the keys, for all servers.
constexpr std::string_view kReserve = R"(
with me as (select 1 from server where id = $1 and incarnation = $2),
reserved as (insert into session as s (key, server, incarnation)
             select k.key, $1, $2 from me, (select distinct key from unnest($3::text[]) as u (key) order by key) as k
             on conflict (key) do update set server = excluded.server, incarnation = excluded.incarnation
             where s.head is null and (s.server is null or (s.server = $1 and s.incarnation = $2)
                   or exists (select 1 from server o where o.id = s.server and o.incarnation > s.incarnation))
             returning s.key)
select (select count(*) from me), r.key from (select 1) as one left join reserved r on true)";

/// True if the database may accept the statement later: it is full, is starting or stopping, is read-only, or had a
/// conflict. By classes of PostgreSQL's codes.
bool MayPass(std::string_view sqlstate) {
  constexpr std::string_view kPassing[] = {"08", "40", "53", "55", "57", "58", "25006", "XX"};
  return std::ranges::any_of(kPassing, [&](std::string_view code) { return sqlstate.starts_with(code); });
}

}  // namespace

Status PostgresWriter::Pause(const Status& failed) {
  if (!std::exchange(failing_, true)) LogError("journal: waiting for the database: {}", failed.message());
  if (stop_.Sleep(kWritePause)) return Status::Ok();
  return Unavailable("journal: the database does not answer, and the server is stopping");
}

Status PostgresWriter::Connect() {
  while (connection_ == nullptr || !connection_->usable()) {
    if (lease_.fenced()) return lease_.Fence();
    auto opened =
        PostgresConnection::Open(target_, stop_, kWriteTimeout, std::chrono::steady_clock::now() + kWritePatience);
    if (opened.ok()) {
      connection_ = std::move(*opened);
    } else {
      RETURN_IF_ERROR(Pause(opened.status()));
    }
  }
  if (std::exchange(failing_, false)) LogInfo("journal: the database answers again");
  return Status::Ok();
}

Result<PostgresWriter::Outcome> PostgresWriter::Resolve(int64_t number) {
  for (;;) {
    RETURN_IF_ERROR(Connect());
    PostgresStatement resolve = {.sql = kResolve, .columns = {kInt8}};
    resolve.params.Text(lease_.server()).Int8(lease_.incarnation());
    const auto reply = connection_->Run(resolve, std::chrono::steady_clock::now() + kWritePatience);
    if (!reply.ok() || connection_->unreplicated()) {
      RETURN_IF_ERROR(Pause(reply.ok() ? Unavailable("it could not replicate a batch") : reply.status()));
      continue;
    }
    if (reply->rows() != 1) return lease_.Fence();
    const int64_t batch = reply->Int8(0, 0);
    if (batch == number) return Outcome::kWritten;
    if (batch == number - 1) return Outcome::kNotWritten;
    return lease_.Fence();
  }
}

Status PostgresWriter::Commit(const std::vector<RowChange>& changes) {
  std::lock_guard lock(mutex_);
  ASSIGN_OR_RETURN(const PostgresBatch batch, PostgresBatch::Of(changes, master_));
  if (batch.empty()) return Status::Ok();
  int64_t number = batch_ + 1;
  for (;;) {
    RETURN_IF_ERROR(Connect());
    const PostgresStatement statement = batch.Statement(lease_.server(), lease_.incarnation(), number);
    const milliseconds time = kWritePatience + milliseconds(statement.params.bytes() / kSlowestBytesPerMs);
    const auto reply = connection_->Run(statement, std::chrono::steady_clock::now() + time);
    const std::string code = connection_->sqlstate();
    if (code == "22012") return IoError("journal: a session of this batch is not this server's: nothing is written");
    if (code == "23505") return lease_.Fence();  // another server wrote a record of this number
    if (!reply.ok() && !code.empty() && !MayPass(code)) return IoError("journal: " + reply.status().message());
    if (reply.ok() && !connection_->unreplicated() && reply->rows() == 1 && reply->Int8(0, 0) == 1) break;
    // Written, not written, or somebody else's turn: only the database knows.
    if (!reply.ok()) RETURN_IF_ERROR(Pause(reply.status()));
    ASSIGN_OR_RETURN(const Outcome outcome, Resolve(number));
    if (RINGSIDE_DEFECT("retry_without_batch")) {
      if (outcome == Outcome::kWritten) ++number;
      continue;
    }
    if (outcome == Outcome::kWritten) break;
  }
  batch_ = number;
  return Status::Ok();
}

Result<std::vector<std::string>> PostgresWriter::Reserve(const std::vector<std::string>& sessions) {
  std::lock_guard lock(mutex_);
  PostgresParams::Column<std::string_view> names;  // others cannot be created
  std::ranges::copy_if(sessions, std::back_inserter(names), IsStoredName);
  for (;;) {
    RETURN_IF_ERROR(Connect());
    PostgresStatement reserve = {.sql = kReserve, .columns = {kInt8, kText}};
    reserve.params.Text(lease_.server()).Int8(lease_.incarnation()).Texts(names);
    const auto reply = connection_->Run(reserve, std::chrono::steady_clock::now() + kWritePatience);
    const std::string code = connection_->sqlstate();
    if (!reply.ok() && !code.empty() && !MayPass(code)) return IoError("journal: " + reply.status().message());
    if (!reply.ok() || connection_->unreplicated()) {
      RETURN_IF_ERROR(Pause(reply.ok() ? Unavailable("it could not replicate a name") : reply.status()));
      continue;
    }
    if (reply->rows() == 0 || reply->Int8(0, 0) != 1) return lease_.Fence();
    std::unordered_set<std::string> reserved;
    for (std::string& key : reply->Texts(1)) reserved.insert(std::move(key));
    std::vector<std::string> existing;
    for (const std::string& session : sessions) {
      if (!reserved.contains(session)) existing.push_back(session);
    }
    return existing;
  }
}

}  // namespace ringside
